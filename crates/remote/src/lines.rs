//! Lines of a body that arrives in pieces.

use std::io::{self, Read};

/// The maximum size of a line, in bytes.
pub const MAX_LINE: usize = 4 << 20;
/// The maximum size of a body, in bytes.
pub const MAX_BODY: usize = 32 << 20;

pub struct Lines<R> {
    body: R,
    /// What has arrived and was not returned yet begins at `start`.
    buffer: Vec<u8>,
    start: usize,
    received: usize,
    has_ended: bool,
}

#[derive(Debug)]
pub enum LineError {
    Io(io::Error),
    /// What is too long, and its limit.
    TooLong(&'static str, usize),
}

impl<R: Read> Lines<R> {
    pub fn new(body: R) -> Self {
        Self {
            body,
            buffer: vec![],
            start: 0,
            received: 0,
            has_ended: false,
        }
    }

    /// Returns the next line without its end, or None at the end of the body. Waits for more only
    /// if there is no whole line.
    ///
    /// # Errors
    /// The connection breaks, or a limit is exceeded.
    pub fn next(&mut self) -> Result<Option<Vec<u8>>, LineError> {
        let mut searched = self.start;
        loop {
            let rest = &self.buffer[searched..];
            if let Some(at) = rest.iter().position(|byte| *byte == b'\n') {
                let mut line = self.buffer[self.start..searched + at].to_vec();
                self.start = searched + at + 1;
                if line.last() == Some(&b'\r') {
                    line.pop();
                }
                return Ok(Some(line));
            }
            if self.has_ended {
                let line = self.buffer.split_off(self.start);
                self.buffer.clear();
                self.start = 0;
                return Ok((!line.is_empty()).then_some(line));
            }
            self.buffer.drain(..self.start);
            self.start = 0;
            searched = self.buffer.len();
            if searched > MAX_LINE {
                return Err(LineError::TooLong("A line", MAX_LINE));
            }
            self.receive()?;
        }
    }

    fn receive(&mut self) -> Result<(), LineError> {
        let mut piece = [0; 16 << 10];
        let bytes = self.body.read(&mut piece).map_err(LineError::Io)?;
        self.received += bytes;
        if self.received > MAX_BODY {
            return Err(LineError::TooLong("The response", MAX_BODY));
        }
        self.has_ended = bytes == 0;
        self.buffer.extend_from_slice(&piece[..bytes]);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A body of which each read returns at most some bytes.
    struct Pieces<'a>(&'a [u8], usize);

    impl Read for Pieces<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let bytes = self.1.min(self.0.len()).min(buffer.len());
            buffer[..bytes].copy_from_slice(&self.0[..bytes]);
            self.0 = &self.0[bytes..];
            Ok(bytes)
        }
    }

    fn lines(text: &str, piece: usize) -> Vec<String> {
        let mut lines = Lines::new(Pieces(text.as_bytes(), piece));
        let mut all = vec![];
        while let Some(line) = lines.next().expect("no error") {
            all.push(String::from_utf8(line).expect("UTF-8"));
        }
        all
    }

    #[test]
    fn ends_of_lines() {
        for piece in [1, 2, 3, 100] {
            assert_eq!(lines("a\r\nb\n\nc", piece), ["a", "b", "", "c"]);
            assert_eq!(lines("a\n", piece), ["a"]);
            assert!(lines("", piece).is_empty());
        }
    }

    #[test]
    fn sizes_are_limited() {
        let mut endless = Lines::new(io::repeat(b'x'));
        assert!(matches!(
            endless.next(),
            Err(LineError::TooLong("A line", _))
        ));
        let mut endless = Lines::new(io::repeat(b'\n'));
        let error = loop {
            if let Err(error) = endless.next() {
                break error;
            }
        };
        assert!(matches!(error, LineError::TooLong("The response", _)));
    }

    proptest::proptest! {
        #[test]
        fn pieces_do_not_matter(text in "[a\n\r]{0,40}", piece in 1usize..7) {
            proptest::prop_assert_eq!(lines(&text, piece), lines(&text, 100));
        }
    }
}
