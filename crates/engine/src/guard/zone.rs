//! Where a path lies: what deleting it would cost. The project and the home beat the temp folder, so a
//! project in `/tmp` is a project.

use std::path::Path;

/// A part of the file system, as `zones` of a guard names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Zone {
    /// `/`, the home, the project, and every folder above one of them.
    Vital,
    /// A `.git` folder, or something in it.
    Git,
    /// A disk or another device: not `/dev/null` and the like.
    Device,
    /// What the operating system or other users own: `/etc`, `/usr`, `/var`, `/home/…`.
    System,
    /// Something in the home.
    Home,
    /// Something in the project.
    Project,
    /// A folder that tools make and can make again: `target`, `node_modules`, a cache.
    Build,
    /// Something in the temp folder.
    Temp,
    /// On another machine or in a container.
    Remote,
    /// A part of the path is not known.
    Unknown,
    Elsewhere,
}

impl Zone {
    pub const NAMES: [(&str, Self); 11] = [
        ("vital", Self::Vital),
        ("git", Self::Git),
        ("device", Self::Device),
        ("system", Self::System),
        ("home", Self::Home),
        ("project", Self::Project),
        ("build", Self::Build),
        ("temp", Self::Temp),
        ("remote", Self::Remote),
        ("unknown", Self::Unknown),
        ("elsewhere", Self::Elsewhere),
    ];

    pub fn find(name: &str) -> Option<Self> {
        let mut names = Self::NAMES.iter();
        names
            .find(|(known, _)| *known == name)
            .map(|(_, zone)| *zone)
    }

    /// Where an absolute path lies.
    pub fn of(path: &str, project: &Path, home: &Path) -> Self {
        let path = whole_folder(path);
        let names: Vec<&str> = path.split('/').filter(|name| !name.is_empty()).collect();
        if is_device(&names) {
            return Self::Device;
        }
        let is_above = |folder: &Path| folder.starts_with(path) && folder != Path::new("/");
        if names.is_empty() || is_above(project) || is_above(home) {
            return Self::Vital;
        }
        if names.contains(&".git") {
            return Self::Git;
        }
        let below = |folder: &Path| {
            let rest = Path::new(path).strip_prefix(folder).ok()?;
            (folder != Path::new("/")).then(|| rest.to_str().unwrap_or_default())
        };
        if let Some(rest) = below(project) {
            return match is_built(rest) || is_built_in_project(rest) {
                true => Self::Build,
                false => Self::Project,
            };
        }
        if let Some(rest) = below(home) {
            return match is_built(rest) {
                true => Self::Build,
                false => Self::Home,
            };
        }
        match &*names {
            ["tmp", _, ..] | ["var", "tmp", _, ..] => Self::Temp,
            ["private", "tmp", _, ..] | ["private", "var", "tmp", _, ..] => Self::Temp,
            ["var" | "private", "folders" | "var", ..] if names.len() > 4 => Self::Temp,
            ["dev", "shm", _, ..] => Self::Temp,
            ["dev", ..] => Self::Elsewhere,
            [top, ..] if SYSTEM.contains(top) || top.contains('*') => Self::System,
            [_] => Self::System,
            _ if is_built(path) => Self::Build,
            _ => Self::Elsewhere,
        }
    }
}

const SYSTEM: [&str; 26] = [
    "Applications",
    "Library",
    "System",
    "Users",
    "Volumes",
    "bin",
    "boot",
    "etc",
    "home",
    "lib",
    "lib32",
    "lib64",
    "libx32",
    "media",
    "mnt",
    "opt",
    "private",
    "proc",
    "root",
    "run",
    "sbin",
    "snap",
    "srv",
    "sys",
    "usr",
    "var",
];

/// `x/*` and `x/.*` are all of `x`.
pub fn whole_folder(path: &str) -> &str {
    let mut path = path;
    loop {
        let shorter = path.trim_end_matches('/');
        let shorter = ["/*", "/**", "/.*", "/.", "/{*,.*}", "/.[!.]*", "/?*"]
            .iter()
            .find_map(|all| shorter.strip_suffix(all))
            .unwrap_or(shorter);
        if shorter == path {
            return path;
        }
        path = shorter;
    }
}

fn is_device(names: &[&str]) -> bool {
    match names {
        // Terminals and serial ports keep nothing.
        ["dev", name, ..] => {
            !name.starts_with("tty")
                && !name.starts_with("cu.")
                && ![
                    "null", "zero", "full", "random", "urandom", "stdin", "stdout", "stderr", "fd",
                    "pts", "shm", "tcp", "udp",
                ]
                .contains(name)
        }
        _ => false,
    }
}

/// Whether one of its folders is one that tools make and can make again.
fn is_built(rest: &str) -> bool {
    const SHORT: [&str; 45] = [
        ".angular", ".astro", "build", ".build", "_build", ".bundle", "Caches", "cdk.out",
        "coverage", "deps", "dist", ".eggs", ".expo", ".gradle", "htmlcov", ".idea", ".kotlin",
        "log", "logs", ".netlify", ".next", ".nox", ".npm", ".nuxt", ".nx", "obj", "out",
        ".output", "output", "Pods", "_site", "target", ".temp", "temp", ".tmp", "tmp", ".tox",
        ".turbo", ".venv", "venv", ".vercel", ".vite", ".webpack", ".yarn", "zig-out",
    ];
    const LONG: [&str; 21] = [
        "bun.lockb",
        ".coverage",
        ".dart_tool",
        "DerivedData",
        ".docusaurus",
        ".elixir_ls",
        "generated",
        "node_modules",
        ".nyc_output",
        "package-lock.json",
        "pnpm-lock.yaml",
        ".pnpm-store",
        "__pycache__",
        ".serverless",
        "__snapshots__",
        "storybook-static",
        ".svelte-kit",
        ".terraform",
        ".terraform.lock.hcl",
        ".vscode-test",
        "zig-cache",
    ];
    let begins = ["build-", "cmake-build-", "bazel-"];
    let is_one = |name: &str| {
        SHORT.contains(&name)
            || LONG.contains(&name)
            || begins.iter().any(|begin| name.starts_with(begin))
            || name.starts_with('.') && name.ends_with("cache")
            || name.len() > ".lock".len() && name.ends_with(".lock")
            || name.ends_with(".egg-info")
            || name.ends_with(".tsbuildinfo")
    };
    let folders = [".cargo/registry", ".m2/repository", "go/pkg/mod"];
    rest.split('/').any(is_one) || folders.iter().any(|folder| rest.contains(folder))
}

/// Names that tools make too, but people as well: at the top of a project they are made.
fn is_built_in_project(rest: &str) -> bool {
    let top = "artifacts release reports result site vendor".split(' ');
    let first = rest.split('/').next().unwrap_or_default();
    top.into_iter().any(|name| name == first)
        || rest.split('/').any(|name| {
            let ends = ["-report", "-results", "-output"];
            ["Debug", "Release"].contains(&name) || ends.iter().any(|end| name.ends_with(end))
        })
}

/// Whether a path that is not known whole begins with the temp folder.
pub fn is_temporary(text: &str) -> bool {
    let begins = [
        "$TMPDIR",
        "${TMPDIR",
        "$TMP/",
        "${TMP}",
        "$(mktemp",
        "`mktemp",
        "$RUNNER_TEMP",
    ];
    begins.iter().any(|it| text.starts_with(it))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones() {
        let (project, home) = (Path::new("/home/u/p"), Path::new("/home/u"));
        for (path, zone) in [
            ("/", Zone::Vital),
            ("/*", Zone::Vital),
            ("/home", Zone::Vital),
            ("/home/u", Zone::Vital),
            ("/home/u/", Zone::Vital),
            ("/home/u/p", Zone::Vital),
            ("/home/u/p/*", Zone::Vital),
            ("/home/u/p/.git", Zone::Git),
            ("/home/u/p/src", Zone::Project),
            ("/home/u/p/target/debug", Zone::Build),
            ("/home/u/p/web/node_modules", Zone::Build),
            ("/home/u/Documents", Zone::Home),
            ("/home/u/.cache/pip", Zone::Build),
            ("/home/v/x", Zone::System),
            ("/etc/passwd", Zone::System),
            ("/tmp", Zone::System),
            ("/tmp/x", Zone::Temp),
            ("/dev/null", Zone::Elsewhere),
            ("/dev/sda", Zone::Device),
            ("/data", Zone::System),
            ("/**/*.log", Zone::System),
            ("/data/x", Zone::Elsewhere),
        ] {
            assert_eq!(Zone::of(path, project, home), zone, "{path}");
        }
        let project = Path::new("/tmp/p");
        assert_eq!(Zone::of("/tmp/p/src", project, home), Zone::Project);
        assert_eq!(Zone::of("/tmp/p", project, home), Zone::Vital);
        assert_eq!(Zone::of("/tmp/q", project, home), Zone::Temp);
        assert_eq!(Zone::of("/x/y", Path::new("/"), home), Zone::Elsewhere);
    }
}
