//! Finds pages whose drawing instructions are damaged.
//!
//! A reader that meets a damaged content stream stops there and reports a shorter page, or an empty
//! one. This module decodes the streams once more and checks what the reader does not:
//!
//! | check | damage |
//! |---|---|
//! | stream | it is missing, or the file ends inside it |
//! | Flate | the data is invalid or has no end; its checksum is wrong |
//! | [`instructions`] | a string has no end; a word has bytes that no instruction has |
//!
//! Streams of a page are those of its `Contents`, the forms that these draw, and their fonts: of a
//! damaged font PDFium drops the text. A checksum counts only if another stream of the file has
//! a right one: some programs write wrong ones throughout. Pictures are not checked.
//!
//! Objects are found by the file's cross-reference table. If that is damaged, they are searched
//! in the bytes of the file.

mod instructions;
mod objects;

use std::{
    collections::HashMap,
    panic::{AssertUnwindSafe, catch_unwind},
};

use flate2::{Decompress, FlushDecompress, Status};
use pdf_extract::{Dictionary, Object, ObjectId, Stream};

use self::{instructions::Instructions, objects::Objects};

/// Indexes of damaged pages. Returns `None` if the pages of the file do not correspond
/// to those that the reader found, so that nothing is known.
pub fn damaged_pages(bytes: &[u8], pages: usize) -> Option<Vec<usize>> {
    // The parser panics on some damaged files.
    let find = || {
        let objects = Objects::read(bytes, pages)?;
        let mut check = Check {
            objects: &objects,
            forms: HashMap::new(),
            parts: HashMap::new(),
            has_right_checksum: false,
        };
        let states: Vec<State> = objects.pages().map(|page| check.page(page)).collect();
        let is_damaged = |state: &State| match state {
            State::Whole => false,
            State::WrongChecksum => check.has_right_checksum,
            State::Damaged => true,
        };
        let damaged = states.iter().enumerate().filter(|(_, s)| is_damaged(s));
        Some(damaged.map(|(page, _)| page).collect())
    };
    catch_unwind(AssertUnwindSafe(find)).ok().flatten()
}

/// In order of severity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum State {
    Whole,
    WrongChecksum,
    Damaged,
}

struct Check<'a> {
    objects: &'a Objects<'a>,
    /// Forms that were checked, or are being checked.
    forms: HashMap<ObjectId, State>,
    /// Parts of fonts that were checked.
    parts: HashMap<ObjectId, State>,
    has_right_checksum: bool,
}

/// Forms may draw forms to this depth.
const DEPTH: usize = 16;

impl Check<'_> {
    fn page(&mut self, id: ObjectId) -> State {
        let objects = self.objects;
        let Some(page) = objects.dictionary(id) else {
            return State::Whole; // the reader has reported it
        };
        let mut content = vec![];
        let mut state = State::Whole;
        for id in objects.contents(page) {
            let decoded = self.stream(id);
            state = state.max(decoded.state);
            content.extend(decoded.content);
            content.push(b'\n');
        }
        state.max(self.instructions(&content, objects.resources(page), DEPTH))
    }

    /// Checks decoded instructions, and the forms and fonts that they use.
    fn instructions(
        &mut self,
        content: &[u8],
        resources: Option<&Dictionary>,
        depth: usize,
    ) -> State {
        let Instructions {
            drawn,
            fonts,
            is_damaged,
        } = instructions::read(content);
        let mut state = if is_damaged {
            State::Damaged
        } else {
            State::Whole
        };
        for name in fonts {
            let font = resources.and_then(|resources| self.objects.font(resources, name));
            if let Some(font) = font {
                state = state.max(self.font(font));
            }
        }
        for name in drawn {
            let form = resources.and_then(|resources| self.objects.external(resources, name));
            if let Some(id) = form {
                state = state.max(self.form(id, resources, depth));
            }
        }
        state
    }

    fn font(&mut self, font: &Dictionary) -> State {
        let parts = self.objects.parts_of_font(font);
        let mut state = State::Whole;
        for id in parts.others {
            state = state.max(self.once(id, |check| {
                if check.objects.is_missing(id) {
                    State::Damaged
                } else {
                    State::Whole
                }
            }));
        }
        for id in parts.streams {
            state = state.max(self.once(id, |check| check.stream(id).state));
        }
        state
    }

    /// Returns the state of a part of a font, which many pages may use.
    fn once(&mut self, id: ObjectId, check: impl FnOnce(&mut Self) -> State) -> State {
        if let Some(state) = self.parts.get(&id) {
            return *state;
        }
        let state = check(self);
        self.parts.insert(id, state);
        state
    }

    fn form(&mut self, id: ObjectId, resources: Option<&Dictionary>, depth: usize) -> State {
        if let Some(state) = self.forms.get(&id) {
            return *state;
        }
        self.forms.insert(id, State::Whole);
        let Some(form) = self.objects.form(id).filter(|_| depth > 0) else {
            return State::Whole;
        };
        let own = self.objects.get(&form.dict, b"Resources");
        let own = own.and_then(|own| own.as_dict().ok());
        let decoded = self.stream(id);
        let inside = self.instructions(&decoded.content, own.or(resources), depth - 1);
        let state = decoded.state.max(inside);
        self.forms.insert(id, state);
        state
    }

    fn stream(&mut self, id: ObjectId) -> DecodedStream {
        let Some(stream) = self.objects.stream(id) else {
            return DecodedStream {
                content: vec![],
                state: State::Damaged,
            };
        };
        let filters = match stream.dict.get(b"Filter") {
            Ok(_) => stream.filters().unwrap_or_default(),
            Err(_) => return DecodedStream::whole(stream.content.clone()),
        };
        let mut decoded = DecodedStream::whole(stream.content.clone());
        for filter in filters {
            let input = decoded.content;
            let next = match filter {
                b"FlateDecode" | b"Fl" => inflated(&input, &mut self.has_right_checksum),
                name => other(name, input),
            };
            decoded = DecodedStream {
                state: decoded.state.max(next.state),
                content: next.content,
            };
        }
        decoded
    }
}

/// A stream, as far as it could be decoded.
struct DecodedStream {
    content: Vec<u8>,
    state: State,
}

impl DecodedStream {
    fn whole(content: Vec<u8>) -> Self {
        Self {
            content,
            state: State::Whole,
        }
    }
}

/// Decodes by a filter that has no means to detect damage. Nothing is known of the content of an
/// unknown one.
fn other(filter: &[u8], input: Vec<u8>) -> DecodedStream {
    if matches!(filter, b"ASCIIHexDecode" | b"AHx") {
        return DecodedStream::whole(from_hex(&input));
    }
    let dictionary = Dictionary::from_iter([("Filter", Object::Name(filter.to_vec()))]);
    let decoded = Stream::new(dictionary, input).decompressed_content();
    DecodedStream::whole(decoded.unwrap_or_default())
}

fn from_hex(text: &[u8]) -> Vec<u8> {
    let digits = text.iter().take_while(|byte| **byte != b'>');
    let digits = digits.filter_map(|byte| char::from(*byte).to_digit(16));
    let digits: Vec<u8> = digits.map(|digit| digit as u8).collect();
    digits
        .chunks(2)
        .map(|pair| pair[0] << 4 | pair.get(1).unwrap_or(&0))
        .collect()
}

/// Unpacks a zlib stream (RFC 1950).
fn inflated(bytes: &[u8], has_right_checksum: &mut bool) -> DecodedStream {
    /// A page of more is not checked to its end.
    const MAXIMUM: usize = 64 << 20;
    const HEADER: usize = 2;
    const DEFLATE: u8 = 8;
    let is_header =
        |a: u8, b: u8| a & 15 == DEFLATE && (u16::from(a) << 8 | u16::from(b)) % 31 == 0;
    let (content, state) = match bytes {
        [] => (vec![], State::Whole),
        [a, b, data @ ..] if is_header(*a, *b) => {
            let mut content = Vec::with_capacity(4 * bytes.len());
            let mut unpacker = Decompress::new(false);
            let state = loop {
                let before = (unpacker.total_in(), unpacker.total_out());
                let rest = data.get(before.0 as usize..).unwrap_or_default();
                let status = unpacker.decompress_vec(rest, &mut content, FlushDecompress::None);
                match status {
                    Ok(Status::StreamEnd) => {
                        let end = HEADER + unpacker.total_in() as usize;
                        break match bytes.get(end..end + 4) {
                            Some(sum) if sum == adler32(&content).to_be_bytes() => {
                                *has_right_checksum = true;
                                State::Whole
                            }
                            Some(_) => State::WrongChecksum,
                            None => State::Whole, // cut after the content
                        };
                    }
                    Err(_) => break State::Damaged,
                    Ok(_) if content.len() > MAXIMUM => break State::Whole,
                    Ok(_) if content.len() == content.capacity() => {
                        content.reserve(content.len().max(1 << 12));
                    }
                    Ok(_) if before == (unpacker.total_in(), unpacker.total_out()) => {
                        break State::Damaged; // the data ends before its end
                    }
                    Ok(_) => {}
                }
            };
            (content, state)
        }
        _ => (vec![], State::Damaged),
    };
    DecodedStream { content, state }
}

/// The checksum of RFC 1950.
fn adler32(bytes: &[u8]) -> u32 {
    const MODULUS: u32 = 65521;
    /// As many sums cannot overflow.
    const RUN: usize = 5552;
    let (mut a, mut b) = (1_u32, 0_u32);
    for run in bytes.chunks(RUN) {
        for byte in run {
            a += u32::from(*byte);
            b += a;
        }
        a %= MODULUS;
        b %= MODULUS;
    }
    b << 16 | a
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::{Compression, write::ZlibEncoder};

    use super::*;

    fn packed(text: &[u8]) -> Vec<u8> {
        let mut encoder = ZlibEncoder::new(vec![], Compression::default());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    fn state(bytes: &[u8]) -> State {
        inflated(bytes, &mut false).state
    }

    #[test]
    fn damage_to_a_zlib_stream_is_found() {
        let text: Vec<u8> = (0..20_000_u32)
            .flat_map(|i| (i * i).to_le_bytes())
            .collect();
        let good = packed(&text);
        assert_eq!(inflated(&good, &mut false).content, text);
        assert_eq!(state(&good), State::Whole);
        // without its checksum, and with a line end
        assert_eq!(state(&good[..good.len() - 4]), State::Whole);
        assert_eq!(state(&[&good[..], b"\r\n"].concat()), State::Whole);
        assert_eq!(state(&good[..good.len() / 2]), State::Damaged);
        assert_eq!(state(&good[1..]), State::Damaged);
        assert_eq!(state(&[]), State::Whole);
        for at in (2..good.len()).step_by(97) {
            let mut bytes = good.clone();
            bytes[at] ^= 0x10;
            assert_ne!(state(&bytes), State::Whole, "byte {at}");
        }
    }
}
