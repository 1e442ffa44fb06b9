//! Finds the pages of a file and the streams that they are drawn by.

use std::{
    borrow::Cow,
    cell::OnceCell,
    collections::{BTreeMap, HashMap},
};

use pdf_extract::{Dictionary, Document, LoadOptions, Object, ObjectId, Stream};

use super::super::MAGIC;

/// The objects of a file.
pub struct Objects<'a> {
    bytes: &'a [u8],
    document: Document,
    pages: Vec<ObjectId>,
    /// Where objects begin in the file, if that can be seen there. The last place of an id is the
    /// newest version.
    places: OnceCell<HashMap<ObjectId, usize>>,
    is_encrypted: bool,
}

/// Parts of a font.
pub struct FontParts {
    /// The glyphs, and which characters they are.
    pub streams: Vec<ObjectId>,
    /// Widths and properties.
    pub others: Vec<ObjectId>,
}

impl<'a> Objects<'a> {
    /// Reads a file of this number of pages. Returns `None` if it cannot be opened or has
    /// another number of pages.
    pub fn read(bytes: &'a [u8], count: usize) -> Option<Self> {
        let start = bytes.windows(MAGIC.len()).position(|w| w == MAGIC)?;
        let bytes = bytes.get(start..)?;
        let with_pages = |bytes: &[u8]| {
            let document = open(bytes)?;
            let pages: Vec<ObjectId> = document.page_iter().collect();
            (pages.len() == count).then_some((document, pages))
        };
        let (document, pages) =
            with_pages(bytes).or_else(|| with_pages(&with_new_table(bytes)?))?;
        Some(Self {
            bytes,
            document,
            pages,
            places: OnceCell::new(),
            is_encrypted: is_encrypted(bytes),
        })
    }

    pub fn pages(&self) -> impl Iterator<Item = ObjectId> {
        self.pages.iter().copied()
    }

    pub fn dictionary(&self, id: ObjectId) -> Option<&Dictionary> {
        self.document.get_dictionary(id).ok()
    }

    pub fn get<'b>(&'b self, dictionary: &'b Dictionary, key: &[u8]) -> Option<&'b Object> {
        let object = dictionary.get(key).ok()?;
        Some(self.document.dereference(object).ok()?.1)
    }

    /// The streams of a page, in order.
    pub fn contents(&self, page: &Dictionary) -> Vec<ObjectId> {
        let Ok(contents) = page.get(b"Contents") else {
            return vec![];
        };
        let reference = |object: &Object| object.as_reference().ok();
        match self.document.dereference(contents) {
            Ok((_, Object::Array(streams))) => streams.iter().filter_map(reference).collect(),
            Ok((_, Object::Null)) => vec![],
            _ => reference(contents).into_iter().collect(),
        }
    }

    /// The resources of a page, which it may have from a node above it.
    pub fn resources<'b>(&'b self, page: &'b Dictionary) -> Option<&'b Dictionary> {
        const DEPTH: usize = 64;
        let mut node = page;
        for _ in 0..DEPTH {
            if let Some(resources) = self.get(node, b"Resources") {
                return resources.as_dict().ok();
            }
            node = self.get(node, b"Parent")?.as_dict().ok()?;
        }
        None
    }

    /// The form or picture of that name.
    pub fn external(&self, resources: &Dictionary, name: &[u8]) -> Option<ObjectId> {
        let objects = self.get(resources, b"XObject")?.as_dict().ok()?;
        objects.get(name).ok()?.as_reference().ok()
    }

    pub fn font<'b>(&'b self, resources: &'b Dictionary, name: &[u8]) -> Option<&'b Dictionary> {
        let fonts = self.get(resources, b"Font")?.as_dict().ok()?;
        self.get(fonts, name)?.as_dict().ok()
    }

    /// The parts of a font that are separate objects.
    pub fn parts_of_font(&self, font: &Dictionary) -> FontParts {
        let first = |fonts: &Object| fonts.as_array().ok()?.first().cloned();
        let descendant = self.get(font, b"DescendantFonts").and_then(first);
        let dictionary = |object: &Object| {
            let (_, object) = self.document.dereference(object).ok()?;
            object.as_dict().ok().cloned()
        };
        let descendant = descendant.as_ref().and_then(dictionary);
        let described = descendant.as_ref().unwrap_or(font);
        let descriptor = self.get(described, b"FontDescriptor").and_then(dictionary);
        let all = [Some(font), descendant.as_ref(), descriptor.as_ref()];
        let parts = |keys: &[&[u8]]| {
            let all = all.iter().flatten();
            let values = all.flat_map(|part| keys.iter().filter_map(|key| part.get(key).ok()));
            values
                .filter_map(|value| value.as_reference().ok())
                .collect()
        };
        FontParts {
            streams: parts(&[b"ToUnicode", b"FontFile", b"FontFile2", b"FontFile3"]),
            others: parts(&[
                b"Encoding",
                b"Widths",
                b"FontDescriptor",
                b"DescendantFonts",
            ]),
        }
    }

    /// Returns true if the file has no such object at all. One that only the parser cannot read is
    /// not missing.
    pub fn is_missing(&self, id: ObjectId) -> bool {
        !self.document.objects.contains_key(&id) && self.place(id).is_none()
    }

    pub fn form(&self, id: ObjectId) -> Option<&Stream> {
        let form = self.document.get_object(id).ok()?.as_stream().ok()?;
        let subtype = self.get(&form.dict, b"Subtype")?.as_name().ok()?;
        (subtype == b"Form").then_some(form)
    }

    fn place(&self, id: ObjectId) -> Option<usize> {
        let places = self.places.get_or_init(|| places(self.bytes).collect());
        places.get(&id).copied()
    }

    /// A stream. Returns `None` if it is missing or damaged.
    pub fn stream(&self, id: ObjectId) -> Option<Cow<'_, Stream>> {
        match self.document.get_object(id).map(Object::as_stream) {
            Ok(Ok(stream)) => Some(Cow::Borrowed(stream)),
            // what the parser cannot read is not decrypted
            _ if self.is_encrypted => Some(Cow::Owned(Stream::new(Dictionary::new(), vec![]))),
            _ => stream_at(self.bytes.get(self.place(id)?..)?).map(Cow::Owned),
        }
    }
}

fn open(bytes: &[u8]) -> Option<Document> {
    let options = LoadOptions {
        filter: Some(without_pictures),
        ..LoadOptions::default()
    };
    let mut document = Document::load_mem_with_options(bytes, options).ok()?;
    if document.is_encrypted() {
        document.decrypt("").ok()?;
    }
    Some(document)
}

/// Leaves pictures out, which take most of the room.
fn without_pictures(id: ObjectId, object: &mut Object) -> Option<(ObjectId, Object)> {
    let is_picture = object.as_stream().is_ok_and(|stream| {
        let subtype = stream.dict.get(b"Subtype").and_then(Object::as_name);
        subtype.is_ok_and(|name| name == b"Image")
    });
    (!is_picture).then(|| (id, object.clone()))
}

fn is_encrypted(bytes: &[u8]) -> bool {
    const KEY: &[u8] = b"/Encrypt";
    bytes.windows(KEY.len()).any(|window| window == KEY)
}

/// The places of an object's number in the file: `number generation obj`.
fn places(bytes: &[u8]) -> impl Iterator<Item = (ObjectId, usize)> {
    const WORD: &[u8] = b" obj";
    let ends = bytes.windows(WORD.len()).enumerate();
    let ends = ends.filter(|(_, window)| *window == WORD);
    ends.filter_map(|(end, _)| {
        let before = bytes.get(..end)?;
        let (generation, before) = number_at_end(before)?;
        let (number, before) = number_at_end(before.strip_suffix(b" ")?)?;
        let id = (u32::try_from(number).ok()?, u16::try_from(generation).ok()?);
        Some((id, before.len()))
    })
}

fn number_at_end(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let digits = bytes.iter().rev().take_while(|b| b.is_ascii_digit());
    let (before, digits) = bytes.split_at_checked(bytes.len() - digits.count())?;
    let number = str::from_utf8(digits).ok()?.parse().ok()?;
    Some((number, before))
}

/// The file with a cross-reference table of the objects that are found in it. Returns `None` if
/// its trailer is missing or it is encrypted.
fn with_new_table(bytes: &[u8]) -> Option<Vec<u8>> {
    const ROOT: &[u8] = b"/Root";
    if is_encrypted(bytes) {
        return None;
    }
    let root = bytes.windows(ROOT.len()).rposition(|w| w == ROOT)?;
    let root = bytes.get(root + ROOT.len()..)?.trim_ascii_start();
    let root = root.get(..root.iter().position(|b| *b == b'R')?)?;
    let root = str::from_utf8(root).ok()?;
    // the last of a number is the newest
    let places: BTreeMap<u32, (u16, usize)> = places(bytes)
        .map(|((number, generation), place)| (number, (generation, place)))
        .collect();
    let size = u64::from(*places.last_key_value()?.0) + 1;
    let mut table = String::from("\nxref\n");
    for (number, (generation, place)) in &places {
        table += &format!("{number} 1\n{place:010} {generation:05} n \n");
    }
    table += &format!(
        "trailer\n<</Size {size}/Root {root}R>>\nstartxref\n{}\n%%EOF\n",
        bytes.len() + 1
    );
    Some([bytes, table.as_bytes()].concat())
}

/// Reads the stream at the start of these bytes, which the parser could not read. Returns `None` if
/// it is damaged.
fn stream_at(object: &[u8]) -> Option<Stream> {
    const START: &[u8] = b"stream";
    const END: &[u8] = b"endstream";
    const OBJECT_END: &[u8] = b"endobj";
    let object_end = object
        .windows(OBJECT_END.len())
        .position(|w| w == OBJECT_END);
    let start = object.windows(START.len()).position(|w| w == START)?;
    if object_end.is_some_and(|end| end < start) {
        return None;
    }
    let (dictionary, content) = object.split_at_checked(start)?;
    let content = content.strip_prefix(START)?;
    let content = content.strip_prefix(b"\r").unwrap_or(content);
    let content = content.strip_prefix(b"\n").unwrap_or(content);
    let end = content.windows(END.len()).position(|w| w == END);
    let content = content.get(..end.unwrap_or(content.len()))?;
    let has = |word: &[u8]| dictionary.windows(word.len()).any(|w| w == word);
    let is_text = |byte: &u8| byte.is_ascii_graphic() || byte.is_ascii_whitespace();
    let filter = match (has(b"/Filter"), has(b"/FlateDecode")) {
        _ if !dictionary.iter().all(is_text) => return None,
        (false, _) => None,
        (true, true) => Some(b"FlateDecode".to_vec()),
        (true, false) => Some(vec![]),
    };
    let filter = filter.map(|name| ("Filter", Object::Name(name)));
    Some(Stream::new(Dictionary::from_iter(filter), content.to_vec()))
}
