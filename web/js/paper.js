// What the paper reports: Merrill, Li, Romero, Svete, Costello et al., "Olmo
// Hybrid: From Theory to Practice and Back", 2026, arXiv 2604.03444, Figure 7
// (Tables 15 to 17): accuracy of 256 fresh samples at each size.

export const archs = [
  { id: "transformer", name: "transformer" },
  { id: "gdn-neg", name: "GDN (\u2212)" },
  { id: "gdn-pos", name: "GDN (+)" },
  { id: "hybrid-neg", name: "hybrid (\u2212)" },
  { id: "hybrid-pos", name: "hybrid (+)" },
];

// named says what the signs mean.
export const named = "GDN: gated delta rule in all layers; hybrid: three of them, then attention. (\u2212) with negative eigenvalues, (+) without.";

export const levels = [4, 8, 16, 32, 64, 128];
export const chance = { st: 0.2, recall: 0.5, sbr: 0.5 };

// accuracy[task][architecture] at the levels.
export const accuracy = {
  st: {
    "transformer": [0.51172, 0.27734, 0.17188, 0.23047, 0.19922, 0.23047],
    "gdn-neg": [1, 1, 1, 1, 1, 1],
    "gdn-pos": [1, 1, 0.97266, 0.64453, 0.21484, 0.22266],
    "hybrid-neg": [1, 1, 1, 1, 1, 1],
    "hybrid-pos": [1, 1, 1, 1, 0.96094, 0.36328],
  },
  recall: {
    "transformer": [1, 1, 1, 1, 1, 0.96484],
    "gdn-neg": [1, 1, 1, 1, 0.83203, 0.67578],
    "gdn-pos": [1, 1, 1, 1, 0.80078, 0.67188],
    "hybrid-neg": [1, 1, 1, 1, 1, 1],
    "hybrid-pos": [1, 1, 1, 1, 1, 1],
  },
  sbr: {
    "transformer": [0.82031, 0.75, 0.73828, 0.73828, 0.62891, 0.54297],
    "gdn-neg": [1, 1, 1, 1, 0.78125, 0.63672],
    "gdn-pos": [0.76953, 0.99219, 0.85547, 0.64453, 0.59766, 0.57422],
    "hybrid-neg": [1, 1, 1, 1, 1, 1],
    "hybrid-pos": [0.85938, 0.99219, 0.9375, 0.6875, 0.61328, 0.57031],
  },
};

export const bibtex = `@article{merrill2026olmohybrid,
  title   = {Olmo Hybrid: From Theory to Practice and Back},
  author  = {Merrill and Li and Romero and Svete and Costello and others},
  journal = {arXiv preprint arXiv:2604.03444},
  year    = {2026}
}
`;
