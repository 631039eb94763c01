// Notices that the machine has slept: timers stop, the clock does not.
const beat = 5_000;
const gap = 90_000; // a hidden page's timers run once a minute

// onWake calls f(ms) after a sleep of so long, once somebody looks.
export function onWake(f, doc = document, clock = globalThis) {
  let last = clock.Date.now();
  let slept = 0;
  const tick = () => {
    const now = clock.Date.now();
    if (now - last > gap) slept = now - last;
    last = now;
    if (!slept || doc.hidden) return;
    const ms = slept;
    slept = 0;
    f(ms);
  };
  clock.setInterval(tick, beat);
  doc.addEventListener("visibilitychange", tick);
}
