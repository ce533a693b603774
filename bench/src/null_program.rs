//! Builds the floor of `spawn`: a program that only exits. It needs no libc and no linker: it is a header,
//! one segment, and the few instructions of an exit.

use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use anyhow::{Context, Result, bail};

const BASE: u64 = 0x40_0000;
const HEADERS: u64 = 64 + 56;

/// Returns the machine's number in an ELF header, and its instructions for exit(0).
fn exit_code() -> Option<(u16, &'static [u8])> {
    match std::env::consts::ARCH {
        // mov eax, 60; xor edi, edi; syscall
        "x86_64" => Some((62, &[0xb8, 60, 0, 0, 0, 0x31, 0xff, 0x0f, 0x05])),
        // mov x8, #93; mov x0, #0; svc #0
        "aarch64" => Some((
            183,
            &[0xa8, 0x0b, 0x80, 0xd2, 0, 0, 0x80, 0xd2, 0x01, 0, 0, 0xd4],
        )),
        _ => None,
    }
}

/// Writes the program to this path.
pub fn build(path: &Path) -> Result<()> {
    let Some((machine, code)) = exit_code() else {
        bail!("no null program is known for {}", std::env::consts::ARCH);
    };
    std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o755)
        .open(path)
        .and_then(|mut file| file.write_all(&elf(machine, code)))
        .with_context(|| format!("could not write {}", path.display()))
}

fn elf(machine: u16, code: &[u8]) -> Vec<u8> {
    let size = HEADERS + code.len() as u64;
    let mut elf = Vec::new();
    // 64 bit, little endian, version 1, System V
    elf.extend_from_slice(b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0");
    let mut put = |bytes: &[u8]| elf.extend_from_slice(bytes);
    put(&2_u16.to_le_bytes()); // an executable
    put(&machine.to_le_bytes());
    put(&1_u32.to_le_bytes());
    put(&(BASE + HEADERS).to_le_bytes()); // entry
    put(&64_u64.to_le_bytes()); // program headers
    put(&0_u64.to_le_bytes()); // section headers: none
    put(&0_u32.to_le_bytes());
    for half in [64_u16, 56, 1, 0, 0, 0] {
        put(&half.to_le_bytes());
    }
    put(&1_u32.to_le_bytes()); // load
    put(&5_u32.to_le_bytes()); // read, execute
    for word in [0, BASE, BASE, size, size, 0x1000] {
        put(&word.to_le_bytes());
    }
    put(code);
    elf
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_exits_without_output() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("nothing");
        build(&path).unwrap();
        let output = std::process::Command::new(&path).output().unwrap();
        assert!(output.status.success() && output.stdout.is_empty());
    }
}
