//! Framing: one message is a JSON header and an optional binary payload.
//!
//! ```text
//! | u32 LE: bytes that follow | u32 LE: bytes of JSON | JSON header | payload |
//! ```
//!
//! The payload carries data that would be slow as JSON: the f32 values of embeddings, the text of a
//! document.

use std::io::{self, Read, Write};

use serde::{Serialize, de::DeserializeOwned};

/// Maximum size of a frame in bytes. Larger ones are refused before anything is allocated.
pub const MAX_FRAME: usize = 256 << 20;

/// An invalid message. Its connection must be closed.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    #[error("a message of {0} bytes exceeds the limit of {MAX_FRAME} bytes")]
    TooLarge(usize),
    #[error("the header of a message claims {json} of its {total} bytes")]
    Malformed { total: usize, json: usize },
    #[error("the header of a message is invalid: {0}")]
    Header(#[from] serde_json::Error),
    #[error("the connection was closed in the middle of a message")]
    Truncated,
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// A received message whose header is not parsed yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    json: Vec<u8>,
    pub payload: Vec<u8>,
}

impl Frame {
    pub fn header<T: DeserializeOwned>(&self) -> Result<T, FrameError> {
        Ok(serde_json::from_slice(&self.json)?)
    }
}

/// Encodes one message.
pub fn encode<T: Serialize>(header: &T, payload: &[u8]) -> Result<Vec<u8>, FrameError> {
    let json = serde_json::to_vec(header)?;
    let total = 4 + json.len() + payload.len();
    if total > MAX_FRAME {
        return Err(FrameError::TooLarge(total));
    }
    let mut out = Vec::with_capacity(4 + total);
    out.extend((total as u32).to_le_bytes());
    out.extend((json.len() as u32).to_le_bytes());
    out.extend(json);
    out.extend(payload);
    Ok(out)
}

/// Writes one message and flushes it.
pub fn write<T: Serialize>(
    to: &mut impl Write,
    header: &T,
    payload: &[u8],
) -> Result<(), FrameError> {
    to.write_all(&encode(header, payload)?)?;
    Ok(to.flush()?)
}

/// Reads one message, blocking. Returns `None` at a clean end of the stream.
pub fn read(from: &mut impl Read) -> Result<Option<Frame>, FrameError> {
    match read_length(from)? {
        Some(length) => read_rest(from, length).map(Some),
        None => Ok(None),
    }
}

/// Reads the length of the next message, blocking. Returns `None` at a clean end of the stream. The
/// message uses no memory before [`read_rest`].
pub fn read_length(from: &mut impl Read) -> Result<Option<usize>, FrameError> {
    let mut prefix = [0; 4];
    let mut have = 0;
    while have < prefix.len() {
        match from.read(&mut prefix[have..]) {
            Ok(0) if have == 0 => return Ok(None),
            Ok(0) => return Err(FrameError::Truncated),
            Ok(n) => have += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e.into()),
        }
    }
    check_total(prefix).map(Some)
}

/// Reads a message of `length` bytes, blocking.
pub fn read_rest(from: &mut impl Read, length: usize) -> Result<Frame, FrameError> {
    let mut take = |length: usize| -> Result<Vec<u8>, FrameError> {
        let mut bytes = vec![];
        let copied = from.by_ref().take(length as u64).read_to_end(&mut bytes)?;
        if copied < length {
            Err(FrameError::Truncated)
        } else {
            Ok(bytes)
        }
    };
    let Some(rest) = length.checked_sub(4) else {
        return Err(FrameError::Malformed {
            total: length,
            json: usize::MAX,
        });
    };
    let json = take(4)?
        .first_chunk::<4>()
        .map_or(usize::MAX, |bytes| u32::from_le_bytes(*bytes) as usize);
    let Some(payload) = rest.checked_sub(json) else {
        return Err(FrameError::Malformed {
            total: length,
            json,
        });
    };
    Ok(Frame {
        json: take(json)?,
        payload: take(payload)?,
    })
}

fn check_total(prefix: [u8; 4]) -> Result<usize, FrameError> {
    let total = u32::from_le_bytes(prefix) as usize;
    if total > MAX_FRAME {
        return Err(FrameError::TooLarge(total));
    }
    Ok(total)
}

/// Collects bytes as they arrive on a non-blocking descriptor and gives out whole messages.
#[derive(Debug, Default)]
pub struct FrameBuffer {
    bytes: Vec<u8>,
    /// Bytes before this position were given out already.
    start: usize,
}

impl FrameBuffer {
    pub fn push(&mut self, bytes: &[u8]) {
        if self.start > 0 && self.start == self.bytes.len() {
            self.bytes.clear();
            self.start = 0;
        }
        self.bytes.extend_from_slice(bytes);
    }

    /// The next whole message, or `None` until more bytes arrive.
    #[allow(clippy::should_implement_trait)] // it fails, and ends only for now: not an iterator
    pub fn next(&mut self) -> Result<Option<Frame>, FrameError> {
        let rest = &self.bytes[self.start..];
        let Some(prefix) = rest.first_chunk::<4>() else {
            return Ok(None);
        };
        let total = check_total(*prefix)?;
        let Some(body) = rest.get(4..4 + total) else {
            if self.start > 0 {
                self.bytes.drain(..self.start);
                self.start = 0;
            }
            return Ok(None);
        };
        let json = body
            .first_chunk::<4>()
            .map_or(usize::MAX, |b| u32::from_le_bytes(*b) as usize);
        let header = json.checked_add(4).and_then(|end| body.get(4..end));
        let Some(header) = header else {
            return Err(FrameError::Malformed { total, json });
        };
        let frame = Frame {
            json: header.to_vec(),
            payload: body[4 + json..].to_vec(),
        };
        self.start += 4 + total;
        Ok(Some(frame))
    }

    /// Returns true if nothing is left over, as it must be when a stream ends cleanly.
    pub fn is_empty(&self) -> bool {
        self.start == self.bytes.len()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn messages_survive_any_fragmentation(
            messages in prop::collection::vec((".{0,40}", prop::collection::vec(any::<u8>(), 0..60)), 0..8),
            step in 1usize..50,
        ) {
            let wire: Vec<u8> = messages.iter().flat_map(|(h, p)| encode(h, p).unwrap()).collect();
            let mut buffer = FrameBuffer::default();
            let mut got = vec![];
            for piece in wire.chunks(step) {
                buffer.push(piece);
                while let Some(f) = buffer.next().unwrap() {
                    got.push((f.header::<String>().unwrap(), f.payload));
                }
            }
            prop_assert!(buffer.is_empty());
            prop_assert_eq!(&got, &messages);

            let mut stream = wire.as_slice();
            for message in &messages {
                let f = read(&mut stream).unwrap().unwrap();
                prop_assert_eq!(&(f.header::<String>().unwrap(), f.payload), message);
            }
            prop_assert!(read(&mut stream).unwrap().is_none());
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut buffer = FrameBuffer::default();
            buffer.push(&bytes);
            while let Ok(Some(_)) = buffer.next() {}
            let _ = read(&mut bytes.as_slice());
        }
    }

    #[test]
    fn an_oversized_message_is_refused_by_its_prefix() {
        let mut buffer = FrameBuffer::default();
        buffer.push(&u32::MAX.to_le_bytes());
        assert!(matches!(buffer.next(), Err(FrameError::TooLarge(_))));
    }

    #[test]
    fn a_truncated_message_is_an_error() {
        let wire = encode(&"hello", b"payload").unwrap();
        assert!(matches!(
            read(&mut &wire[..wire.len() - 1]),
            Err(FrameError::Truncated)
        ));
        assert!(matches!(read(&mut &wire[..2]), Err(FrameError::Truncated)));
    }
}
