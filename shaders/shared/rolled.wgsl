// n, as a bound that compilers cannot see through: a loop up to it stays a loop. CPU drivers
// unroll constant ones and then compile for minutes.
fn rolled(n: u32) -> u32 {
    return n * min(step.counter, 1u);
}
