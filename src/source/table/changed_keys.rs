//! The keys of the rows that a statement has changed, read from its transition tables, or of the
//! row for which a trigger is called.
//!
//! Keys are a list of texts. Each text is its length (u32, little-endian) and its bytes, or
//! [`NULL_LENGTH`] alone. A row has as many texts as there are id columns. The settings that decide
//! how a date is written do not matter: dates are written in ISO here, and a run casts each text to
//! the type of its column.
#![allow(unsafe_code)] // tuple stores, datums, output functions

use std::{
    ffi::{CStr, c_char},
    ptr::null_mut,
};

use pgrx::{PgTupleDesc, pg_sys};

use super::{rows::RowKey, trigger::TriggerCall};
use crate::{
    error::Error,
    pg::{compat::datums_are_equal, guc::with_settings},
};

/// Stands in place of a length for a NULL.
const NULL_LENGTH: u32 = u32::MAX;

/// The maximum size of the keys of one statement. A scan of the table is no more work than looking
/// up more keys.
const MAX_KEY_BYTES: usize = 8 << 20;

/// A column that the trigger compares.
struct TriggerColumn {
    index: usize,
    by_value: bool,
    length: i16,
    type_oid: pg_sys::Oid,
    /// The column is computed when it is read: no row holds its bytes.
    is_virtual: bool,
}

/// Returns the keys to record, or None for all rows.
///
/// # Errors
/// A column that the arguments name was dropped or renamed.
pub(super) fn changed_keys(
    data: &pg_sys::TriggerData,
    call: &TriggerCall<'_>,
) -> Result<Option<Vec<u8>>, Error> {
    let event = data.tg_event & pg_sys::TRIGGER_EVENT_OPMASK;
    if event == pg_sys::TRIGGER_EVENT_TRUNCATE {
        return Ok(None);
    }
    // SAFETY: the relation stays open while the trigger runs.
    let (descriptor, all) = unsafe {
        let descriptor = (*data.tg_relation).rd_att;
        (descriptor, PgTupleDesc::from_pg_unchecked(descriptor))
    };
    let attribute = |name: &&CStr| {
        (0..all.len())
            .filter_map(|index| Some((index, all.get(index)?)))
            // SAFETY: a name in the catalog ends with NUL.
            .find(|(_, a)| {
                !a.attisdropped && unsafe { CStr::from_ptr(a.attname.data.as_ptr()) } == *name
            })
            .map(|(index, a)| TriggerColumn {
                index,
                by_value: a.attbyval,
                length: a.attlen,
                type_oid: a.atttypid,
                is_virtual: a.attgenerated == b'v' as c_char,
            })
            .ok_or_else(|| {
                Error::undefined(format!("there is no column \"{}\"", name.to_string_lossy()))
            })
    };
    let ids: Vec<TriggerColumn> = call.ids.iter().map(attribute).collect::<Result<_, _>>()?;
    let columns: Vec<TriggerColumn> = call
        .columns
        .iter()
        .map(attribute)
        .collect::<Result<_, _>>()?;

    let is_row = data.tg_event & pg_sys::TRIGGER_EVENT_ROW != 0;
    let mut old_table = data.tg_oldtable;
    if event == pg_sys::TRIGGER_EVENT_UPDATE && !ids.iter().any(|id| may_change(data, id)) {
        if !columns.iter().any(|column| may_change(data, column)) {
            return Ok(Some(vec![]));
        }
        // SAFETY: the statement's own transition table.
        if !is_row && !unsafe { pg_sys::tuplestore_in_memory(old_table) } {
            // reading it from disk costs more than a run that finds some rows unchanged
            old_table = null_mut();
        }
    }
    let (mut old, mut new) = if is_row {
        let (first, second) = (data.tg_trigslot, data.tg_newslot);
        let (old, new) = match event {
            pg_sys::TRIGGER_EVENT_INSERT => (null_mut(), first),
            pg_sys::TRIGGER_EVENT_UPDATE => (first, second),
            _ => (first, null_mut()),
        };
        (ChangedRows::of_row(old), ChangedRows::of_row(new))
    } else {
        (
            ChangedRows::of_table(old_table, descriptor),
            ChangedRows::of_table(data.tg_newtable, descriptor),
        )
    };
    let (has_old, has_new) = (old.is_there(), new.is_there());
    let mut keys = KeyWriter::new(&ids);
    let mut collect = || {
        loop {
            if keys.bytes.len() > MAX_KEY_BYTES {
                return Ok(None);
            }
            match (old.next(), new.next()) {
                (true, true) => {
                    let is_same =
                        |a: &TriggerColumn| !a.is_virtual && old.get(a).is_same(&new.get(a), a);
                    let same_key = ids.iter().all(is_same);
                    if !same_key {
                        keys.push(&old);
                    }
                    if !same_key || !columns.iter().all(is_same) {
                        keys.push(&new);
                    }
                }
                (true, false) if !has_new => keys.push(&old),
                (false, true) if !has_old => keys.push(&new),
                (false, false) => return Ok(Some(std::mem::take(&mut keys.bytes))),
                // Postgres passes as many old rows as new ones; if it did not, the pairs would be
                // unknown
                _ => return Ok(None),
            }
            pgrx::check_for_interrupts!();
        }
    };
    // the form in which a run reads them, whatever the session's settings are
    if ids.iter().all(|id| is_setting_independent(id.type_oid)) {
        collect()
    } else {
        const PLAIN: &[(&CStr, &CStr)] = &[
            (c"datestyle", c"ISO, YMD"),
            (c"intervalstyle", c"postgres"),
            (c"extra_float_digits", c"1"),
        ];
        with_settings(PLAIN, collect)
    }
}

/// Returns true if an UPDATE may have changed a column: its SET list has the column, or one from
/// which the column is computed, or a trigger may have set it.
fn may_change(data: &pg_sys::TriggerData, column: &TriggerColumn) -> bool {
    // SAFETY: relation and columns of the statement, valid while the trigger runs.
    unsafe {
        let triggers = (*data.tg_relation).trigdesc;
        let member = column.index as i32 + 1 - pg_sys::FirstLowInvalidHeapAttributeNumber;
        column.is_virtual
            || data.tg_updatedcols.is_null()
            || triggers.is_null()
            || (*triggers).trig_update_before_row
            || pg_sys::bms_is_member(member, data.tg_updatedcols)
    }
}

/// Returns true if no setting changes the text form of the type's values.
fn is_setting_independent(type_oid: pg_sys::Oid) -> bool {
    [
        pg_sys::INT2OID,
        pg_sys::INT4OID,
        pg_sys::INT8OID,
        pg_sys::TEXTOID,
        pg_sys::VARCHAROID,
        pg_sys::BPCHAROID,
        pg_sys::UUIDOID,
        pg_sys::NUMERICOID,
    ]
    .contains(&type_oid)
}

#[derive(Clone, Copy)]
struct ColumnValue {
    value: pg_sys::Datum,
    is_null: bool,
}

impl ColumnValue {
    fn is_same(&self, other: &Self, attribute: &TriggerColumn) -> bool {
        if self.is_null || other.is_null {
            return self.is_null == other.is_null;
        }
        // SAFETY: two values of the column's type, from rows that are still in their slots.
        unsafe {
            datums_are_equal(
                self.value,
                other.value,
                attribute.by_value,
                attribute.length,
            )
        }
    }
}

/// The old or the new rows: a transition table, read from beginning to end, or one row. A missing
/// one counts as empty.
struct ChangedRows {
    store: *mut pg_sys::Tuplestorestate,
    slot: *mut pg_sys::TupleTableSlot,
    columns: i32,
    /// The slot is the trigger's, and its row was not read yet.
    has_row: bool,
}

impl ChangedRows {
    fn of_row(slot: *mut pg_sys::TupleTableSlot) -> Self {
        Self {
            store: null_mut(),
            slot,
            columns: 0,
            has_row: !slot.is_null(),
        }
    }

    fn is_there(&self) -> bool {
        !self.slot.is_null()
    }

    fn of_table(store: *mut pg_sys::Tuplestorestate, descriptor: pg_sys::TupleDesc) -> Self {
        if store.is_null() {
            return Self {
                store,
                slot: null_mut(),
                columns: 0,
                has_row: false,
            };
        }
        // SAFETY: the store belongs to the statement. Each trigger reads it with a read pointer of
        // its own.
        unsafe {
            let position =
                pg_sys::tuplestore_alloc_read_pointer(store, pg_sys::EXEC_FLAG_REWIND as i32);
            pg_sys::tuplestore_select_read_pointer(store, position);
            pg_sys::tuplestore_rescan(store);
            let slot =
                pg_sys::MakeSingleTupleTableSlot(descriptor, &raw const pg_sys::TTSOpsMinimalTuple);
            Self {
                store,
                slot,
                columns: (*descriptor).natts,
                has_row: false,
            }
        }
    }

    /// Moves to the next row. Returns false if there is none.
    fn next(&mut self) -> bool {
        if std::mem::take(&mut self.has_row) {
            // SAFETY: the trigger's slot has a row while the trigger runs.
            unsafe {
                let columns = (*(*self.slot).tts_tupleDescriptor).natts;
                pg_sys::slot_getsomeattrs_int(self.slot, columns);
            }
            return true;
        }
        if self.store.is_null() {
            return false;
        }
        // SAFETY: store and slot are valid while the trigger runs.
        unsafe {
            let found = pg_sys::tuplestore_gettupleslot(self.store, true, false, self.slot);
            if found {
                pg_sys::slot_getsomeattrs_int(self.slot, self.columns);
            }
            found
        }
    }

    fn get(&self, attribute: &TriggerColumn) -> ColumnValue {
        // SAFETY: `next` has filled all columns of the slot.
        unsafe {
            ColumnValue {
                value: *(*self.slot).tts_values.add(attribute.index),
                is_null: *(*self.slot).tts_isnull.add(attribute.index),
            }
        }
    }
}

impl Drop for ChangedRows {
    fn drop(&mut self) {
        if !self.store.is_null() {
            // SAFETY: created in `of_table`, and not used afterwards.
            unsafe { pg_sys::ExecDropSingleTupleTableSlot(self.slot) };
        }
    }
}

/// Encodes the keys of rows.
struct KeyWriter<'a> {
    ids: &'a [TriggerColumn],
    output: Vec<pg_sys::FmgrInfo>,
    /// Reset after each row.
    scratch: pg_sys::MemoryContext,
    bytes: Vec<u8>,
}

impl<'a> KeyWriter<'a> {
    fn new(ids: &'a [TriggerColumn]) -> Self {
        let output = ids
            .iter()
            .map(|id| {
                let mut output = pg_sys::FmgrInfo::default();
                // SAFETY: looks up the output function of the type.
                unsafe {
                    let (mut function, mut is_varlena) = (pg_sys::InvalidOid, false);
                    pg_sys::getTypeOutputInfo(id.type_oid, &mut function, &mut is_varlena);
                    pg_sys::fmgr_info(function, &mut output);
                }
                output
            })
            .collect();
        // SAFETY: a child of the current memory context, which ends with the statement.
        let scratch = unsafe {
            pg_sys::AllocSetContextCreateInternal(
                pg_sys::CurrentMemoryContext,
                c"rag changed keys".as_ptr(),
                0,
                8192,
                8 << 20,
            )
        };
        Self {
            ids,
            output,
            scratch,
            bytes: vec![],
        }
    }

    fn push(&mut self, row: &ChangedRows) {
        for (id, output) in self.ids.iter().zip(&mut self.output) {
            let field = row.get(id);
            if field.is_null {
                self.bytes.extend(NULL_LENGTH.to_le_bytes());
                continue;
            }
            // SAFETY: the output function of the type returns a C string in the current context.
            unsafe {
                let before = pg_sys::MemoryContextSwitchTo(self.scratch);
                let text = CStr::from_ptr(pg_sys::OutputFunctionCall(output, field.value));
                self.bytes.extend((text.count_bytes() as u32).to_le_bytes());
                self.bytes.extend(text.to_bytes());
                pg_sys::MemoryContextSwitchTo(before);
            }
        }
        // SAFETY: nothing in the context is in use.
        unsafe { pg_sys::MemoryContextReset(self.scratch) };
    }
}

/// Decodes the keys of a queued row, each of `parts` texts. Keys with a NULL are left out, because
/// no document is made of such a row.
///
/// # Errors
/// The bytes were not written for this number of id columns.
pub fn decode(mut bytes: &[u8], parts: usize) -> Result<Vec<RowKey>, Error> {
    let damaged = || Error::data_exception("a row of rag_internal.table_change is corrupted");
    let mut keys = vec![];
    while !bytes.is_empty() {
        let key: Option<Vec<String>> = (0..parts)
            .map(|_| {
                let (length, rest) = bytes.split_first_chunk::<4>().ok_or_else(damaged)?;
                bytes = rest;
                let length = u32::from_le_bytes(*length);
                if length == NULL_LENGTH {
                    return Ok(None);
                }
                let (text, rest) = bytes
                    .split_at_checked(length as usize)
                    .ok_or_else(damaged)?;
                bytes = rest;
                String::from_utf8(text.to_vec())
                    .map(Some)
                    .map_err(|_| damaged())
            })
            .collect::<Result<Vec<_>, Error>>()?
            .into_iter()
            .collect();
        keys.extend(key);
    }
    Ok(keys)
}
