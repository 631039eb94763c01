// Work that is measured, or not done twice.

// timed does f and leaves its time as the performance measure shellgame-panel.
export function timed(f) {
  const start = performance.now();
  f();
  performance.clearMeasures("shellgame-panel");
  performance.measure("shellgame-panel", { start });
}

// latest makes of an asynchronous f one that runs once at a time; of the calls
// in the meantime only the last is made. It resolves when nothing is left to do.
export function latest(f) {
  let running = null;
  let next = null;
  const run = async () => {
    await null; // so that running is set before it is cleared
    try {
      while (next) {
        const mine = next;
        next = null;
        await f(...mine, () => next !== null);
      }
    } finally {
      running = null;
    }
  };
  return (...args) => {
    next = args;
    return running ??= run();
  };
}
