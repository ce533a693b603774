//! Fills in the placeholders in a tool's arguments: `{files}` the changed files, `{packages}` their folders (Go),
//! `{module}` the tests of one file (Rust), `{tests}` the test files that belong to them (Python), `{scratch}` a file
//! of becket's own.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

/// The number of entries that are read to find the tests of a file.
const MOST_ENTRIES: usize = 20_000;
/// Folders of installed or generated files.
const INSTALLED: &[&str] = &[
    "node_modules",
    "target",
    "venv",
    "dist",
    "build",
    "__pycache__",
    "vendor",
];

/// Returns true if a tool with these arguments runs once for every file.
pub fn is_for_each(args: &str) -> bool {
    args.contains("{module}")
}

/// Fills in all placeholders. Returns none if there is nothing for the tool to do.
pub fn fill(args: &str, files: &[PathBuf], folder: &Path, scratch: &Path) -> Option<Vec<OsString>> {
    let mut filled = Vec::new();
    for arg in args.split_whitespace() {
        match arg {
            "{files}" => filled.extend(files.iter().map(|file| as_seen(file, folder))),
            "{packages}" => filled.extend(packages(files, folder)),
            "{module}" => filled.extend(module(files.first()?, folder)?),
            "{tests}" => filled.extend(tests(files, folder)?),
            "{scratch}" => filled.push(scratch.into()),
            plain => filled.push(plain.into()),
        }
    }
    Some(filled)
}

/// Returns a path relative to the folder. A name that begins with `-` gets a `./`, so that it is not an option.
fn as_seen(file: &Path, folder: &Path) -> OsString {
    let near = file.strip_prefix(folder).unwrap_or(file);
    match near.as_os_str().as_encoded_bytes().first() {
        Some(b'-') => Path::new(".").join(near).into(),
        _ => near.into(),
    }
}

/// Returns the folders of the files, without duplicates.
fn packages(files: &[PathBuf], folder: &Path) -> Vec<OsString> {
    let mut packages: Vec<OsString> = Vec::new();
    for file in files {
        let near = file.strip_prefix(folder).unwrap_or(file);
        let package = Path::new(".").join(near.parent().unwrap_or(Path::new("")));
        let package = if package == Path::new("./") {
            ".".into()
        } else {
            package.into()
        };
        if !packages.contains(&package) {
            packages.push(package);
        }
    }
    packages
}

/// Returns the arguments of `cargo test` that run the tests of one file. Benches, examples and build scripts have
/// none.
fn module(file: &Path, folder: &Path) -> Option<Vec<OsString>> {
    let near = file.strip_prefix(folder).ok()?;
    let stem = near.with_extension("");
    let parts: Vec<&str> = stem.iter().filter_map(|part| part.to_str()).collect();
    let (args, inside): (&[&str], &[&str]) = match &*parts {
        ["src", "bin", ..] => (&["--bins"], &[]),
        ["src", inside @ ..] => (&["--tests"], inside),
        ["tests", name] => (&["--test", name], &[]),
        ["tests", name, inside @ ..]
            if folder.join("tests").join(name).join("main.rs").is_file() =>
        {
            (&["--test", name], inside)
        }
        ["tests", ..] => (&["--tests"], &[]),
        _ => return None,
    };
    let module = match inside {
        [above @ .., "mod" | "lib" | "main"] => above,
        inside => inside,
    };
    let filter = (!module.is_empty()).then(|| format!("{}::", module.join("::")).into());
    Some(args.iter().map(OsString::from).chain(filter).collect())
}

/// Returns the test files of Python files: `test_x.py` or `x_test.py` for `x.py`.
fn tests(files: &[PathBuf], folder: &Path) -> Option<Vec<OsString>> {
    let mut names = Vec::new();
    let mut found = Vec::new();
    for file in files {
        let stem = file.file_stem()?.to_str()?;
        if stem.starts_with("test_") || stem.ends_with("_test") {
            found.push(file.clone());
        } else if !stem.starts_with("__") {
            names.push(format!("test_{stem}.py"));
            names.push(format!("{stem}_test.py"));
        }
    }
    if !names.is_empty() {
        walk(folder, &mut |path| {
            let name = path
                .file_name()
                .and_then(|name| name.to_str())
                .unwrap_or_default();
            if names.iter().any(|wanted| wanted == name) {
                found.push(path.to_path_buf());
            }
        });
    }
    found.sort();
    found.dedup();
    let found: Vec<_> = found.iter().map(|file| as_seen(file, folder)).collect();
    (!found.is_empty()).then_some(found)
}

/// Visits every file below a folder that the user may have written, within bounds. Links are not followed.
pub fn walk(folder: &Path, visit: &mut impl FnMut(&Path)) {
    let mut folders = vec![folder.to_path_buf()];
    let mut left = MOST_ENTRIES;
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            left = left.saturating_sub(1);
            if left == 0 {
                return;
            }
            let name = entry.file_name();
            let name = name.to_string_lossy();
            let Ok(kind) = entry.file_type() else {
                continue;
            };
            if kind.is_dir() && !name.starts_with('.') && !INSTALLED.contains(&&*name) {
                folders.push(entry.path());
            } else if kind.is_file() {
                visit(&entry.path());
            }
        }
    }
}

#[cfg(test)]
mod tests_of_arguments {
    use super::*;

    fn joined(words: Option<Vec<OsString>>) -> Option<String> {
        let words: Vec<_> = words?
            .into_iter()
            .map(|word| word.into_string().unwrap())
            .collect();
        Some(words.join(" "))
    }

    fn place(name: &str) -> PathBuf {
        Path::new("/p").join(name)
    }

    #[test]
    fn a_rust_file_has_the_tests_of_its_module() {
        for (file, wanted) in [
            ("src/price.rs", Some("--tests price::")),
            ("src/shop/price.rs", Some("--tests shop::price::")),
            ("src/shop/mod.rs", Some("--tests shop::")),
            ("src/lib.rs", Some("--tests")),
            ("src/main.rs", Some("--tests")),
            ("src/bin/tool.rs", Some("--bins")),
            ("tests/buy.rs", Some("--test buy")),
            ("tests/lost/x.rs", Some("--tests")),
            ("benches/b.rs", None),
            ("build.rs", None),
        ] {
            assert_eq!(
                joined(module(&place(file), Path::new("/p"))).as_deref(),
                wanted,
                "{file}"
            );
        }
        let folder = tempfile::tempdir().unwrap();
        let it = folder.path().join("tests/it");
        fs::create_dir_all(&it).unwrap();
        fs::write(it.join("main.rs"), "").unwrap();
        let module = |name: &str| joined(module(&it.join(name), folder.path()));
        assert_eq!(module("buy.rs").as_deref(), Some("--test it buy::"));
        assert_eq!(module("main.rs").as_deref(), Some("--test it"));
    }

    #[test]
    fn a_python_file_has_the_test_files_of_its_name() {
        let folder = tempfile::tempdir().unwrap();
        for name in [
            "shop/price.py",
            "tests/test_price.py",
            "shop/price_test.py",
            "venv/test_price.py",
            ".x/test_price.py",
        ] {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        let tests = |name: &str| joined(tests(&[folder.path().join(name)], folder.path()));
        assert_eq!(
            tests("shop/price.py").as_deref(),
            Some("shop/price_test.py tests/test_price.py")
        );
        assert_eq!(
            tests("tests/test_price.py").as_deref(),
            Some("tests/test_price.py")
        );
        assert_eq!(tests("shop/other.py"), None);
        assert_eq!(tests("shop/__init__.py"), None);
    }

    #[test]
    fn a_file_is_never_an_option() {
        let files = ["--fix", "src/a b.ts"].map(place);
        let args = fill("lint {files}", &files, Path::new("/p"), Path::new("/s")).unwrap();
        assert_eq!(args, ["lint", "./--fix", "src/a b.ts"].map(OsString::from));
    }
}
