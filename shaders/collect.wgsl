struct Range {
    size: u32, // words
    off: u32,
    stride: u32,
    at: u32,
}
struct Params { // keep in step with CollectParams
    ranges: array<Range, 6>,
    stamp: u32,
    pad0: u32,
    pad1: u32,
    pad2: u32,
}
@group(0) @binding(1) var<uniform> p: Params;
@group(0) @binding(2) var<storage, read> a: array<u32>;
@group(0) @binding(3) var<storage, read> b: array<u32>;
@group(0) @binding(4) var<storage, read> c: array<u32>;
@group(0) @binding(5) var<storage, read> d: array<u32>;
@group(0) @binding(6) var<storage, read> e: array<u32>;
@group(0) @binding(7) var<storage, read> f: array<u32>;
@group(0) @binding(8) var<storage, read_write> all: array<u32>;

const WG: u32 = 256u;

// A workgroup owns WG words of the ranges, taken one after the other.
@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) i: u32) {
    var n: u32 = group_number(group, groups) * WG + i;
    if (n == 0u && p.stamp > 0u) {
        all[p.stamp] = step.counter;
    }
    for (var r: u32 = 0u; r < 6u; r = r + 1u) {
        let range = p.ranges[r];
        if (n < range.size) {
            let k = range.off + step.slot * range.stride + n;
            var v: u32 = 0u;
            switch (r) {
                case 0u: { v = a[k]; }
                case 1u: { v = b[k]; }
                case 2u: { v = c[k]; }
                case 3u: { v = d[k]; }
                case 4u: { v = e[k]; }
                default: { v = f[k]; }
            }
            all[range.at + n] = v;
            return;
        }
        n = n - range.size;
    }
}
