//! Installs a version of Claude Code from npm, once, into a folder of its own.

use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::skip::Unavailable;

/// The package whose script Node runs. Newer versions come as a native binary, which needs no Node.
const SCRIPT_PACKAGE: &str = "@anthropic-ai/claude-code";

pub(super) fn find_or_install(cache: &Path, version: &str) -> Result<Vec<OsString>, Unavailable> {
    if !version
        .chars()
        .all(|c| c.is_ascii_alphanumeric() || ".-".contains(c))
    {
        return Err(Unavailable::new(format!(
            "{version:?} is no version of Claude Code"
        )));
    }
    let folder = cache.join(version);
    fs::create_dir_all(&folder).map_err(|e| failed(&folder, "make", &e))?;
    let folder = folder
        .canonicalize()
        .map_err(|e| failed(&folder, "find", &e))?;
    let lock = folder.join("lock");
    let lock = File::create(&lock).map_err(|e| failed(&lock, "open", &e))?;
    lock.lock().map_err(|e| failed(&folder, "lock", &e))?;
    if let Some(command) = find(&folder) {
        return Ok(command);
    }
    if let Some(why) = failed_lately(&folder) {
        return Err(why);
    }
    install(&folder, version).inspect_err(|why| {
        let _ = fs::write(folder.join("failed"), why.to_string());
    })
}

/// Returns the error of a recent failed install. Each test may be a process: where npm is not reachable,
/// only one of them finds out.
fn failed_lately(folder: &Path) -> Option<Unavailable> {
    let mark = folder.join("failed");
    let age = mark.metadata().ok()?.modified().ok()?.elapsed().ok()?;
    let lately = age < Duration::from_secs(600);
    lately.then(|| Unavailable::new(fs::read_to_string(mark).unwrap_or_default()))
}

fn failed(path: &Path, verb: &str, why: &dyn std::fmt::Display) -> Unavailable {
    Unavailable::new(format!("{verb} {}: {why}", path.display()))
}

/// Finds an installed program. Its marker is written last, so an install that was killed does not count.
fn find(folder: &Path) -> Option<Vec<OsString>> {
    let package = fs::read_to_string(folder.join("complete")).ok()?;
    command(folder, package.trim())
}

fn command(folder: &Path, package: &str) -> Option<Vec<OsString>> {
    let inside = folder.join("node_modules").join(package);
    let native = inside.join("claude");
    if native.is_file() {
        return Some(vec![native.into()]);
    }
    let script = inside.join("cli.js");
    let node = on_path("node")?;
    script.is_file().then(|| vec![node.into(), script.into()])
}

fn install(folder: &Path, version: &str) -> Result<Vec<OsString>, Unavailable> {
    let npm = on_path("npm").ok_or_else(|| {
        Unavailable::new(format!(
            "Claude Code {version} is not in the cache and npm is not here"
        ))
    })?;
    let mut why = String::new();
    for package in [native_package(), SCRIPT_PACKAGE.to_owned()] {
        let _ = fs::remove_dir_all(folder.join("node_modules"));
        let outcome = fetch(&npm, folder, &package, version);
        // The tarball in npm's cache would double the disk space.
        let _ = fs::remove_dir_all(folder.join("npm"));
        match outcome {
            Err(more) => why = format!("{why}{more}"),
            Ok(()) => {
                if let Some(command) = command(folder, &package) {
                    fs::write(folder.join("complete"), &package)
                        .map_err(|e| failed(folder, "mark as complete", &e))?;
                    return Ok(command);
                }
                why = format!("{why}{package} holds no program that runs here; ");
            }
        }
    }
    Err(Unavailable::new(format!(
        "install Claude Code {version}: {why}"
    )))
}

/// npm names systems and processors as Node does.
fn native_package() -> String {
    let system = match std::env::consts::OS {
        "macos" => "darwin",
        other => other,
    };
    let processor = match std::env::consts::ARCH {
        "x86_64" => "x64",
        "aarch64" => "arm64",
        other => other,
    };
    format!("{SCRIPT_PACKAGE}-{system}-{processor}")
}

fn fetch(npm: &Path, folder: &Path, package: &str, version: &str) -> Result<(), String> {
    let home = folder.join("npm");
    fs::create_dir_all(&home).map_err(|e| e.to_string())?;
    let run = Command::new(npm)
        .args(["install", "--prefix"])
        .arg(folder)
        .args(["--ignore-scripts", "--no-save", "--no-package-lock"])
        .args(["--no-audit", "--no-fund", "--omit=optional"])
        .args([
            "--fetch-timeout=120000",
            "--fetch-retries=1",
            "--loglevel=error",
        ])
        .arg(format!("{package}@{version}"))
        .env("HOME", &home)
        .env("npm_config_cache", home.join("cache"))
        // Node knows only its built-in authorities; a machine may have one more in the system's store.
        .envs(extra_authorities())
        .current_dir(folder)
        .stdin(Stdio::null())
        .output();
    match run {
        Ok(done) if done.status.success() => Ok(()),
        Ok(done) => {
            let said = String::from_utf8_lossy(&done.stderr);
            let first = said.lines().find(|line| !line.trim().is_empty());
            Err(format!("npm {package}: {}; ", first.unwrap_or("failed")))
        }
        Err(error) => Err(format!("start npm: {error}; ")),
    }
}

/// Returns the variable for the system's store of certificates, unless the environment already names one.
pub(crate) fn extra_authorities() -> Option<(&'static str, &'static str)> {
    let store = "/etc/ssl/certs/ca-certificates.crt";
    let named = std::env::var_os("NODE_EXTRA_CA_CERTS").is_some();
    (!named && Path::new(store).exists()).then_some(("NODE_EXTRA_CA_CERTS", store))
}

pub(crate) fn on_path(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let mut folders = std::env::split_paths(&path);
    folders.find_map(|folder| Some(folder.join(program)).filter(|file| file.is_file()))
}
