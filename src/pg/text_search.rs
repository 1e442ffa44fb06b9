//! Text search configurations: look-ups, and the lexemes of texts.
#![allow(unsafe_code)] // the text search functions of the server

use std::ffi::{CStr, c_char, c_int};

use pgrx::{PgList, direct_function_call, pg_sys};

use super::{
    compat, lookup,
    memory::{OwnedContext, guarded_in},
    spi::as_caller,
    transaction::with_snapshot,
};
use crate::error::Error;

/// Texts are parsed in pieces of at most this size, because the words of a text take many times its
/// memory. A piece ends at white space if there is some.
const PIECE_BYTES: usize = 1 << 20;

/// PostgreSQL counts no further (MAXENTRYPOS).
pub(super) const MAX_POSITION: u32 = (1 << 14) - 1;

/// `pg_ts_config`, whose header pgrx leaves out.
const CONFIG_RELATION: pg_sys::Oid = pg_sys::Oid::from_u32(3602);
/// The number of its column `oid`.
const CONFIG_OID_COLUMN: i16 = 1;

/// Returns the OID of a text search configuration, whatever the current role's rights on its
/// schema.
pub fn config(schema: &CStr, name: &CStr) -> Option<pg_sys::Oid> {
    let schema = lookup::schema(schema)?;
    // SAFETY: a look-up by (name, schema).
    let config = unsafe {
        pg_sys::GetSysCacheOid(
            pg_sys::SysCacheIdentifier::TSCONFIGNAMENSP as c_int,
            CONFIG_OID_COLUMN as _,
            name.as_ptr().into(),
            schema.into(),
            pg_sys::Datum::null(),
            pg_sys::Datum::null(),
        )
    };
    (config != pg_sys::InvalidOid).then_some(config)
}

/// Returns the qualified and quoted name of a configuration. The name is looked up in the caller's
/// `search_path`, like that of a table. Raises an ERROR if there is no such configuration.
///
/// # Errors
/// A statement fails.
pub fn qualified_name(name: &CStr) -> Result<Option<String>, Error> {
    let name = pg_sys::Datum::from(name.as_ptr());
    // SAFETY: the input function of regconfig, with a text that ends with NUL.
    let config = unsafe { direct_function_call::<pg_sys::Oid>(pg_sys::regconfigin, &[Some(name)]) };
    let found = as_caller(|caller| {
        caller.query(
            "SELECT format('%I.%I', n.nspname, c.cfgname) AS name
             FROM pg_ts_config AS c JOIN pg_namespace AS n ON n.oid = c.cfgnamespace
             WHERE c.oid = $1",
            &[config.into()],
            |row| row.required("name"),
        )
    })?;
    Ok(found.into_iter().next())
}

/// Returns what a configuration does with words: its parser, and the dictionaries of each kind of
/// word with their options. Files of dictionaries are not read.
///
/// # Errors
/// A statement fails.
pub fn mapping(config: pg_sys::Oid) -> Result<String, Error> {
    // a commit that empties temporary tables builds their indexes again
    let rows = with_snapshot(|| {
        as_caller(|caller| {
            caller.query(
                "SELECT format('%s %s %s %s %I.%I', m.maptokentype, m.mapseqno, t.tmplname,
                           d.dictinitoption, n.nspname, d.dictname) AS entry
             FROM pg_ts_config_map AS m
             JOIN pg_ts_dict AS d ON d.oid = m.mapdict
             JOIN pg_ts_template AS t ON t.oid = d.dicttemplate
             JOIN pg_namespace AS n ON n.oid = d.dictnamespace
             WHERE m.mapcfg = $1
             ORDER BY m.maptokentype, m.mapseqno",
                &[config.into()],
                |row| row.required::<String>("entry"),
            )
        })
    })?;
    Ok(rows.join("\n"))
}

/// Splits a name at its dots, as in SQL. Raises an ERROR for a text that is no name.
pub fn split_name(name: &CStr) -> Vec<String> {
    // SAFETY: a list of names, which are copied.
    unsafe {
        let text = pg_sys::cstring_to_text(name.as_ptr());
        let names = PgList::<pg_sys::String>::from_pg(pg_sys::textToQualifiedNameList(text));
        let copy = |name| compat::name_text(name).to_string_lossy().into_owned();
        names.iter_ptr().map(copy).collect()
    }
}

/// Makes an index depend on a configuration, and no longer on others.
pub fn make_index_depend_on_config(index: pg_sys::Oid, config: pg_sys::Oid) {
    let address = |class, object| pg_sys::ObjectAddress {
        classId: class,
        objectId: object,
        objectSubId: 0,
    };
    let behavior = pg_sys::DependencyType::DEPENDENCY_NORMAL;
    // SAFETY: writes rows of pg_depend; both addresses live during the call.
    unsafe {
        pg_sys::deleteDependencyRecordsForClass(
            pg_sys::RelationRelationId,
            index,
            CONFIG_RELATION,
            behavior as c_char,
        );
        let index = address(pg_sys::RelationRelationId, index);
        let config = address(CONFIG_RELATION, config);
        pg_sys::recordDependencyOn(&index, &config, behavior);
    }
}

/// Calls `f` with each lexeme of a text, in the order of the text. Stop words are left out. So are
/// words of more than 2,046 bytes, without the NOTICE that `to_tsvector` gives: a search may parse
/// the same text many times.
///
/// `f` also gets the position, which PostgreSQL counts up to 16,383. From there on, stop words are
/// not counted. Returns the number of positions.
///
/// # Errors
/// Those of `f`.
pub fn each_lexeme<E>(
    config: pg_sys::Oid,
    text: &[u8],
    mut f: impl FnMut(&[u8], u32) -> Result<(), E>,
) -> Result<u32, E> {
    let mut before = 0;
    each_piece(text, |piece, memory| {
        let parsed = parse(config, piece, memory);
        let mut next = before;
        for i in 0..parsed.curwords as usize {
            // SAFETY: as many words are in `memory`, until it is reset.
            let (word, at) = unsafe {
                let word = &*parsed.words.add(i);
                let bytes = std::slice::from_raw_parts(word.word.cast(), usize::from(word.len));
                (bytes, u32::from(word.pos.pos))
            };
            let position = match at {
                MAX_POSITION.. => next,
                at => before + at.saturating_sub(1),
            };
            next = next.max(position + 1);
            f(word, position)?;
        }
        before = next.max(before + parsed.pos.unsigned_abs());
        Ok(())
    })?;
    Ok(before)
}

/// Calls `f` with each piece of a text, and a memory context that is reset before the next piece.
///
/// # Errors
/// Those of `f`.
pub fn each_piece<E>(
    text: &[u8],
    mut f: impl FnMut(&[u8], &OwnedContext) -> Result<(), E>,
) -> Result<(), E> {
    let mut memory = OwnedContext::new(c"rag lexemes");
    let mut rest = text;
    while !rest.is_empty() {
        pgrx::check_for_interrupts!();
        let (piece, others) = rest.split_at(piece_length(rest));
        rest = others;
        f(piece, &memory)?;
        // SAFETY: `f` is done with what it allocated.
        unsafe { memory.reset() };
    }
    Ok(())
}

/// Returns how many bytes of a text are parsed at once.
fn piece_length(text: &[u8]) -> usize {
    if text.len() <= PIECE_BYTES {
        return text.len();
    }
    let piece = &text[..PIECE_BYTES];
    let is_space = |byte: &u8| byte.is_ascii_whitespace();
    let begins_character = |byte: &u8| byte & 0xC0 != 0x80;
    match piece.iter().rposition(is_space) {
        Some(space) => space + 1,
        // before the character that begins last
        None => piece
            .iter()
            .rposition(begins_character)
            .filter(|start| *start > 0)
            .unwrap_or(PIECE_BYTES),
    }
}

/// Functions that are called without pgrx's guard, within [`guarded_in`].
mod raw {
    use super::{c_char, pg_sys};

    unsafe extern "C-unwind" {
        pub fn palloc(bytes: usize) -> *mut std::ffi::c_void;
        pub fn parsetext(
            config: pg_sys::Oid,
            parsed: *mut pg_sys::ParsedText,
            text: *mut c_char,
            bytes: i32,
        );
    }
}

/// Parses a text. The words are in `memory`.
fn parse(config: pg_sys::Oid, text: &[u8], memory: &OwnedContext) -> pg_sys::ParsedText {
    // as to_tsvector estimates it; the parser makes more room
    let words = (text.len() / 6).max(2);
    let mut parsed = pg_sys::ParsedText {
        words: std::ptr::null_mut(),
        lenwords: words as i32,
        curwords: 0,
        pos: 0,
    };
    let bytes = text.as_ptr().cast::<c_char>().cast_mut();
    let _quiet = QuietNotices::begin();
    // SAFETY: `parsetext` reads as many bytes, and writes neither to them nor beyond its own words.
    unsafe {
        guarded_in(memory, || {
            parsed.words = raw::palloc(words * size_of::<pg_sys::ParsedWord>()).cast();
            raw::parsetext(config, &mut parsed, bytes, text.len() as i32);
        });
    }
    parsed
}

/// While this exists, the client gets no NOTICE.
pub(super) struct QuietNotices(c_int);

impl QuietNotices {
    pub(super) fn begin() -> Self {
        // SAFETY: a setting of the session, which `drop` restores.
        unsafe {
            let before = pg_sys::client_min_messages;
            pg_sys::client_min_messages = before.max(pg_sys::WARNING as c_int);
            Self(before)
        }
    }
}

impl Drop for QuietNotices {
    fn drop(&mut self) {
        // SAFETY: as above.
        unsafe { pg_sys::client_min_messages = self.0 };
    }
}
