// What a load says of itself. It comes after the first picture.
import { bytes, number, percent } from "./format.js";

// duration is a time in seconds, roughly.
export function duration(s) {
  if (s < 90) return `${Math.max(Math.round(s), 1)} s`;
  if (s < 5400) return `${Math.round(s / 60)} min`;
  return `${(s / 3600).toFixed(1)} h`;
}

// Speed watches a download and says how fast it is and how long it will take,
// "" before it can tell.
export class Speed {
  #from = null;
  #last = null;
  #rate = 0; // bytes a second, of the last seconds

  at(done, total, now = performance.now()) {
    if (this.#last === null || done < this.#last.done) {
      this.#from = this.#last = { done, now };
      this.#rate = 0;
      return "";
    }
    const dt = (now - this.#last.now) / 1000;
    if (dt >= 0.25) {
      const rate = (done - this.#last.done) / dt;
      const keep = this.#rate ? Math.exp(-dt / 3) : 0;
      this.#rate = keep * this.#rate + (1 - keep) * rate;
      this.#last = { done, now };
    }
    if (now - this.#from.now < 1000 || !(this.#rate > 0)) return "";
    return `${bytes(this.#rate)}/s` + (total > done ? `, ${duration((total - done) / this.#rate)} left` : "");
  }
}

// deviation says how far the logits of rounded weights are off.
export const deviation = (d) => `logits off by ${percent(d.rms)} (RMS), KL ${number(d.kl)} nats, the same likeliest token in ${percent(d.same)} of ${d.tokens}`;
