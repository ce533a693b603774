//! As much of HTTP/1.1 as one client on the same machine needs.

use std::io::{self, BufRead, Read, Write};

/// Larger than any conversation of a test; past it the client is at fault.
const MOST: usize = 256 << 20;

/// A request as it came off the wire.
#[derive(Debug)]
pub(super) struct Incoming {
    pub method: String,
    pub path: String,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Incoming {
    /// The next request of this connection; `None` when the client is done with it.
    pub fn read(from: &mut impl BufRead) -> io::Result<Option<Self>> {
        let first = line(from)?;
        let mut words = first.split_whitespace();
        let (Some(method), Some(path)) = (words.next(), words.next()) else {
            return Ok(None);
        };
        let mut incoming = Self {
            method: method.to_owned(),
            path: path.to_owned(),
            headers: headers(from)?,
            body: Vec::new(),
        };
        incoming.body = incoming.read_body(from)?;
        Ok(Some(incoming))
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value.as_str())
    }

    fn read_body(&self, from: &mut impl BufRead) -> io::Result<Vec<u8>> {
        if self
            .header("transfer-encoding")
            .is_some_and(|how| how.contains("chunked"))
        {
            return chunks(from);
        }
        let length = self.header("content-length").unwrap_or("0");
        exactly(from, length.parse().map_err(io::Error::other)?)
    }
}

fn line(from: &mut impl BufRead) -> io::Result<String> {
    let mut line = String::new();
    from.take(1 << 20).read_line(&mut line)?;
    Ok(line.trim_end().to_owned())
}

fn headers(from: &mut impl BufRead) -> io::Result<Vec<(String, String)>> {
    let mut headers = Vec::new();
    loop {
        let line = line(from)?;
        if line.is_empty() {
            return Ok(headers);
        }
        if let Some((name, value)) = line.split_once(':') {
            headers.push((name.trim().to_lowercase(), value.trim().to_owned()));
        }
    }
}

fn exactly(from: &mut impl Read, length: usize) -> io::Result<Vec<u8>> {
    if length > MOST {
        return Err(io::Error::other("request body above the bound"));
    }
    let mut body = vec![0; length];
    from.read_exact(&mut body)?;
    Ok(body)
}

fn chunks(from: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let size = line(from)?;
        let size = size.split(';').next().unwrap_or_default().trim();
        let size = usize::from_str_radix(size, 16).map_err(io::Error::other)?;
        if body.len() + size > MOST {
            return Err(io::Error::other("request body above the bound"));
        }
        body.extend(exactly(from, size)?);
        line(from)?;
        if size == 0 {
            return Ok(body);
        }
    }
}

/// What goes back.
#[derive(Debug)]
pub(super) struct Outgoing {
    pub status: u16,
    pub content_type: &'static str,
    pub request_id: String,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Outgoing {
    /// Writes it but for the last `rest` bytes of the body.
    pub fn write(&self, to: &mut impl Write, with_body: bool, rest: usize) -> io::Result<()> {
        let mut head = format!(
            "HTTP/1.1 {} Scripted\r\ncontent-type: {}\r\ncontent-length: {}\r\nrequest-id: {}\r\n",
            self.status,
            self.content_type,
            self.body.len(),
            self.request_id,
        );
        for (name, value) in &self.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str("\r\n");
        let mut bytes = head.into_bytes();
        if with_body {
            bytes.extend_from_slice(&self.body[..self.body.len() - rest]);
        }
        to.write_all(&bytes)?;
        to.flush()
    }
}
