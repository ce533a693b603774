//! Opens files of a project for efforts. A repository may bring any file along: no link is followed, and only
//! a regular file inside the project is read or written.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::Errno;

/// Opens a file of the project to read it.
pub fn open(project: &Path, file: &Path) -> io::Result<File> {
    open_below(project, file, OFlags::RDONLY)
}

/// The first bytes of a file of the project, as text.
pub fn head(project: &Path, file: &Path, bytes: usize) -> io::Result<String> {
    let mut head = Vec::new();
    let file = open(project, file)?;
    file.take(bytes as u64).read_to_end(&mut head)?;
    Ok(String::from_utf8_lossy(&head).into_owned())
}

/// Opens a file of the project to append to it, and says whether this has made the file.
pub fn append(project: &Path, file: &Path) -> io::Result<(File, bool)> {
    let flags = OFlags::WRONLY | OFlags::APPEND;
    match open_below(project, file, flags | OFlags::CREATE | OFlags::EXCL) {
        Err(why) if why.kind() == io::ErrorKind::AlreadyExists => {
            Ok((open_below(project, file, flags)?, false))
        }
        made => Ok((made?, true)),
    }
}

/// The same for a file that gets a new text.
pub fn replace(project: &Path, file: &Path) -> io::Result<(File, bool)> {
    let (file, is_new) = append(project, file)?;
    file.set_len(0)?;
    Ok((file, is_new))
}

/// Opens one folder after the other, so that a link that is put in the way meanwhile is met too.
fn open_below(project: &Path, file: &Path, flags: OFlags) -> io::Result<File> {
    let root = project.canonicalize()?;
    let below = file.strip_prefix(project).or(file.strip_prefix(&root));
    let outside = || io::Error::other("it is outside the project");
    let below: PathBuf = below.map_err(|_| outside())?.into();
    let is_name = |part: Component<'_>| matches!(part, Component::Normal(_));
    if !below.components().all(is_name) {
        return Err(outside());
    }
    let safe = OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
    let folder = OFlags::RDONLY | OFlags::DIRECTORY | safe;
    let mut at = openat(CWD, &root, folder, Mode::empty())?;
    let mut parts = below.components().peekable();
    while let Some(part) = parts.next() {
        let flags = if parts.peek().is_some() {
            folder
        } else {
            flags | safe
        };
        let opened = openat(&at, part.as_os_str(), flags, Mode::from_raw_mode(0o666));
        at = opened.map_err(|why| match why {
            Errno::LOOP | Errno::NOTDIR => io::Error::other("a link stands in the way"),
            Errno::NXIO => irregular(),
            why => why.into(),
        })?;
    }
    let file = File::from(at);
    let is_regular = file.metadata()?.is_file();
    is_regular.then_some(file).ok_or_else(irregular)
}

fn irregular() -> io::Error {
    io::Error::other("it is not a regular file")
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_file_of_the_project_is_made_appended_to_and_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let project = folder.path();
        fs::create_dir(project.join("t")).unwrap();
        let file = project.join("t/1_FIX_LOG.md");
        for (text, made) in [("a", true), ("b", false)] {
            let (mut opened, is_new) = append(project, &file).unwrap();
            opened.write_all(text.as_bytes()).unwrap();
            assert_eq!(is_new, made);
        }
        assert_eq!(head(project, &file, 10).unwrap(), "ab");
        let (mut opened, is_new) = replace(project, &file).unwrap();
        opened.write_all(b"c").unwrap();
        assert!(!is_new);
        assert_eq!(head(project, &file, 10).unwrap(), "c");
        // The project by a link to it, as a terminal may name it.
        let link = folder.path().with_extension("link");
        symlink(project, &link).unwrap();
        assert_eq!(head(&link, &link.join("t/1_FIX_LOG.md"), 10).unwrap(), "c");
        fs::remove_file(link).unwrap();
        let big = File::options().write(true).open(&file).unwrap();
        big.set_len(2 << 30).unwrap();
        assert_eq!(head(project, &file, 100).unwrap().len(), 100);
    }

    #[test]
    fn links_pipes_and_what_lies_outside_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let project = folder.path().join("p");
        fs::create_dir_all(project.join("folder")).unwrap();
        fs::write(folder.path().join("secret"), "secret").unwrap();
        symlink("../secret", project.join("link")).unwrap();
        symlink("..", project.join("up")).unwrap();
        symlink("nowhere", project.join("dangling")).unwrap();
        let pipe = project.join("pipe");
        rustix::fs::mknodat(CWD, &pipe, rustix::fs::FileType::Fifo, Mode::RWXU, 0).unwrap();
        for (name, why) in [
            ("link", "a link"),
            ("up/secret", "a link"),
            ("dangling", "a link"),
            ("../secret", "outside"),
            ("/etc/passwd", "outside"),
            ("pipe", "not a regular file"),
            ("folder", "not a regular file"),
        ] {
            let file = project.join(name);
            let read = open(&project, &file).unwrap_err().to_string();
            assert!(read.contains(why), "{name}: {read}");
            let written = [append(&project, &file), replace(&project, &file)];
            assert!(written.iter().all(Result::is_err), "{name}: {written:?}");
        }
        assert_eq!(
            fs::read_to_string(folder.path().join("secret")).unwrap(),
            "secret"
        );
        assert!(!project.join("nowhere").exists());
    }
}
