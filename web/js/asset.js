// asset is the address of a file of this build: the build puts all but the
// pages, the zoo and embed.js into a folder that is named after what it holds.
export const asset = (path) => new URL(`../${path}`, import.meta.url).href;
