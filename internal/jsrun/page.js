// Gives a Go program the process, path and fs that wasm_exec.js expects from Node, over HTTP
// from jsrun, and runs it. jsrun(text) is the binding to the other side.
const base = new URL(".", location.href);
const config = await (await fetch(new URL("config.json", base))).json();

const fault = (code) => Object.assign(new Error(code), { code });

let cwd = config.cwd;
const resolve = (path) => {
  const parts = [];
  for (const part of (path.startsWith("/") ? path : cwd + "/" + path).split("/")) {
    if (part === "..") parts.pop();
    else if (part !== "" && part !== ".") parts.push(part);
  }
  return "/" + parts.join("/");
};

async function call(op, path, args = {}, body = undefined) {
  const url = new URL("fs/" + op, base);
  url.search = new URLSearchParams({ path: resolve(path), ...args });
  let answer;
  try {
    answer = await fetch(url, { method: "POST", body });
  } catch {
    throw fault("EIO");
  }
  const errno = answer.headers.get("Errno") ?? (answer.ok ? null : "EIO");
  if (errno !== null) throw fault(errno);
  return answer;
}

const zero = { nlink: 1, uid: 0, gid: 0, rdev: 0, blksize: 4096, blocks: 0 };
const stats = async (answer) => {
  const s = await answer.json();
  return { ...zero, ...s, atimeMs: s.mtimeMs, ctimeMs: s.mtimeMs, isDirectory: () => (s.mode & 0o170000) === 0o040000 };
};

// Numbers as on Linux, which jsrun hands to the system.
const constants = { O_WRONLY: 1, O_RDWR: 2, O_CREAT: 64, O_EXCL: 128, O_TRUNC: 512, O_APPEND: 1024, O_DIRECTORY: 65536 };

const files = new Map();
let nextFile = 3;
const fileOf = (fd) => {
  const f = files.get(fd);
  if (f === undefined) throw fault("EBADF");
  return f;
};

function print(fd, bytes) {
  for (let i = 0; i < bytes.length; i += 8192) {
    jsrun((fd === 1 ? "o" : "e") + btoa(String.fromCharCode(...bytes.subarray(i, i + 8192))));
  }
  return bytes.length;
}

const operations = {
  async open(path, flags, mode) {
    const stat = await stats(await call("open", path, { flags, mode }));
    if (flags & constants.O_DIRECTORY && !stat.isDirectory()) throw fault("ENOTDIR");
    const fd = nextFile++;
    files.set(fd, { path: resolve(path), append: (flags & constants.O_APPEND) !== 0, pos: 0, data: null });
    return fd;
  },
  async close(fd) {
    fileOf(fd);
    files.delete(fd);
  },
  async read(fd, buffer, offset, length, position) {
    if (fd === 0) return 0;
    const f = fileOf(fd);
    f.data ??= new Uint8Array(await (await call("read", f.path)).arrayBuffer());
    const at = position ?? f.pos;
    const part = f.data.subarray(at, at + length);
    buffer.set(part, offset);
    if (position === null) f.pos += part.length;
    return part.length;
  },
  async write(fd, buffer, offset, length, position) {
    const bytes = buffer.subarray(offset, offset + length);
    if (fd === 1 || fd === 2) return print(fd, bytes);
    const f = fileOf(fd);
    await call("write", f.path, { at: position ?? f.pos, append: f.append }, bytes);
    f.data = null;
    if (position === null) f.pos += length;
    return length;
  },
  async fstat(fd) {
    return stats(await call("stat", fileOf(fd).path));
  },
  async ftruncate(fd, length) {
    const f = fileOf(fd);
    f.data = null;
    await call("truncate", f.path, { length });
  },
  async fsync() {},
  stat: async (path) => stats(await call("stat", path)),
  lstat: async (path) => stats(await call("lstat", path)),
  readdir: async (path) => (await call("readdir", path)).json(),
  readlink: async (path) => (await call("readlink", path)).text(),
  truncate: (path, length) => call("truncate", path, { length }),
  mkdir: (path, mode) => call("mkdir", path, { mode }),
  chmod: (path, mode) => call("chmod", path, { mode }),
  utimes: (path, atime, mtime) => call("utimes", path, { atime, mtime }),
  unlink: (path) => call("unlink", path),
  rmdir: (path) => call("rmdir", path),
  rename: (from, to) => call("rename", from, { to: resolve(to) }),
};

globalThis.fs = { constants, writeSync: print };
for (const name of ["chown", "fchmod", "fchown", "lchown", "link", "symlink"]) {
  operations[name] = async () => {
    throw fault("ENOSYS");
  };
}
for (const [name, operation] of Object.entries(operations)) {
  globalThis.fs[name] = (...args) => {
    const done = args.pop();
    // A callback that throws ends up in the console, not in the operation's own error.
    operation(...args).then(
      (value) => done(null, value),
      (error) => done(error.code ? error : fault("EIO")),
    );
  };
}
globalThis.path = { resolve };
globalThis.process = {
  pid: 1,
  ppid: 0,
  getuid: () => 0,
  getgid: () => 0,
  geteuid: () => 0,
  getegid: () => 0,
  getgroups: () => [],
  umask: () => 0o22,
  cwd: () => cwd,
  chdir: (path) => {
    cwd = resolve(path);
  },
};

try {
  await new Promise((loaded, failed) => {
    const script = document.createElement("script");
    script.src = new URL("wasm_exec.js", base);
    script.onload = loaded;
    script.onerror = () => failed(new Error("wasm_exec.js did not load"));
    document.head.append(script);
  });
  const go = new Go();
  go.argv = config.argv;
  go.env = config.env;
  go.exit = (code) => jsrun("x" + code);
  const { instance } = await WebAssembly.instantiateStreaming(fetch(new URL("main.wasm", base)), go.importObject);
  await go.run(instance);
} catch (error) {
  jsrun("f" + (error.stack || error));
}
