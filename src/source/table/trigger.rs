//! The trigger that notes which rows a statement has changed: `rag.table_changed(source, n, id
//! columns..., columns...)`.
//!
//! Only the extension makes such triggers. One that somebody made by hand, with another shape, is
//! an error; one on a relation that the source does not read notes nothing and says so.
//!
//! It runs in the writer's transaction, so it must be cheap and must never fail it:
//!
//! * An UPDATE that sets none of the columns that a document is made of is told by its SET alone.
//! * Of any other the old and the new rows are read side by side, and a row is noted only if one of
//!   these columns has other bytes now. (Rows that did not fit into work_mem are noted all, unless
//!   their keys may have changed.) Values that are stored elsewhere (TOAST) are compared by their
//!   pointers, not read: an unchanged one keeps its pointer.
//! * All keys of a statement are one row of `rag.table_changes`, which has no index, put there
//!   without a plan.
//! * All of this is a subtransaction. Whatever goes wrong in it, the next run is told to read the
//!   whole table instead; if not even that can be written down, the user gets a WARNING. Only a
//!   cancelled statement stays cancelled.
//!
//! Keys are a list of texts, each a length (u32, little-endian) and its bytes, or [`NULL`] alone;
//! as many a row as there are id columns. A settings-dependent form (dates) does not matter: a run
//! casts each to the column's type, and dates are written in ISO here.
#![allow(unsafe_code)] // the trigger's call, the tuple stores, a heap insert without a plan

use std::{
    ffi::{CStr, CString, c_char},
    ptr::null_mut,
};

use pgrx::{FromDatum, PgSqlErrorCode, PgTupleDesc, pg_guard, pg_sys};

use crate::{
    cluster::news,
    error::Error,
    pg::{guc::with_settings, subtransaction::subtransaction},
};

/// In the place of a length.
pub const NULL: u32 = u32::MAX;

/// From here on a scan of the table is no more work than looking the keys up.
const MAX_BYTES: usize = 8 << 20;

unsafe extern "C" {
    // utils/datum.h and commands/sequence.h, which pgrx leaves out
    fn datumIsEqual(
        a: pg_sys::Datum,
        b: pg_sys::Datum,
        by_value: bool,
        length: std::ffi::c_int,
    ) -> bool;
    fn nextval_internal(sequence: pg_sys::Oid, check_permissions: bool) -> i64;
}

#[unsafe(no_mangle)]
pub extern "C" fn pg_finfo_rag_table_changed() -> &'static pg_sys::Pg_finfo_record {
    const V1: pg_sys::Pg_finfo_record = pg_sys::Pg_finfo_record { api_version: 1 };
    &V1
}

/// # Safety
/// Called by Postgres.
#[pg_guard]
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn rag_table_changed(call: pg_sys::FunctionCallInfo) -> pg_sys::Datum {
    // SAFETY: the caller's; the node's tag says whether it is a trigger's call.
    unsafe {
        let context = (*call).context;
        if context.is_null() || (*context).type_ != pg_sys::NodeTag::T_TriggerData {
            Error::new(
                PgSqlErrorCode::ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED,
                "rag.table_changed() can only be called as a trigger",
            )
            .raise();
        }
        let data = &*context.cast::<pg_sys::TriggerData>();
        match Call::read(data) {
            Ok(call) => note(data, &call),
            Err(error) => error.raise(),
        }
    }
    pg_sys::Datum::null()
}

/// What a trigger of the extension's is called with.
struct Call<'a> {
    source: &'a CStr,
    /// The relation's id columns.
    ids: Vec<&'a CStr>,
    /// Other columns that a document is made of.
    columns: Vec<&'a CStr>,
}

impl<'a> Call<'a> {
    /// # Errors
    /// The trigger has another shape than those that the extension makes.
    fn read(data: &'a pg_sys::TriggerData) -> Result<Self, Error> {
        const WHEN: u32 = pg_sys::TRIGGER_EVENT_ROW | pg_sys::TRIGGER_EVENT_TIMINGMASK;
        let has_tables = match data.tg_event & pg_sys::TRIGGER_EVENT_OPMASK {
            pg_sys::TRIGGER_EVENT_INSERT => !data.tg_newtable.is_null(),
            pg_sys::TRIGGER_EVENT_UPDATE => {
                !data.tg_oldtable.is_null() && !data.tg_newtable.is_null()
            }
            pg_sys::TRIGGER_EVENT_DELETE => !data.tg_oldtable.is_null(),
            _ => true,
        };
        // SAFETY: Postgres gives the trigger with its arguments, which are C strings.
        let arguments: Vec<&CStr> = unsafe {
            let trigger = &*data.tg_trigger;
            let count = usize::try_from(trigger.tgnargs).unwrap_or(0);
            (0..count)
                .map(|i| CStr::from_ptr(*trigger.tgargs.add(i)))
                .collect()
        };
        if data.tg_event & WHEN == pg_sys::TRIGGER_EVENT_AFTER
            && has_tables
            && let [source, count, columns @ ..] = arguments.as_slice()
            && let Some(count) = count
                .to_str()
                .ok()
                .and_then(|count| count.parse::<usize>().ok())
            && let Some((ids, columns)) = columns.split_at_checked(count)
            && !ids.is_empty()
        {
            return Ok(Self {
                source,
                ids: ids.to_vec(),
                columns: columns.to_vec(),
            });
        }
        Err(Error::new(
            PgSqlErrorCode::ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED,
            "rag.table_changed() was called by a trigger that the extension did not create",
        )
        .hint("Drop the trigger: rag_create_source() makes those that a source needs."))
    }
}

fn note(data: &pg_sys::TriggerData, call: &Call<'_>) {
    // SAFETY: the relation stays open while the trigger runs.
    let relation = unsafe { (*data.tg_relation).rd_id };
    let source = call.source.to_string_lossy();
    let noted = subtransaction(|| {
        if !reads(call.source, relation)? {
            pgrx::warning!(
                "rag: a change is not noted for source \"{source}\", which does not read the table"
            );
            return Ok(());
        }
        let keys = changed_keys(data, call)?;
        if keys.as_ref().is_some_and(Vec::is_empty) {
            return Ok(()); // nothing that a document is made of
        }
        insert(call.source, keys.as_deref())?;
        news::sync_changes_at_commit();
        Ok(())
    });
    let Err(error) = noted else { return };
    let everything = subtransaction(|| match reads(call.source, relation)? {
        true => {
            insert(call.source, None)?;
            news::sync_changes_at_commit();
            Ok(())
        }
        false => Ok(()),
    });
    if let Err(worse) = everything {
        pgrx::warning!(
            "rag: source \"{source}\" may miss a change until its next full scan: {error}; {worse}"
        );
    }
}

/// Whether the source reads the relation, by its row as it is now.
fn reads(source: &CStr, relation: pg_sys::Oid) -> Result<bool, Error> {
    // SAFETY: an index scan on a table of the extension's own, closed before its result is used.
    unsafe {
        let table = pg_sys::table_open(find(c"source")?, pg_sys::AccessShareLock as i32);
        let column = pg_sys::get_attnum((*table).rd_id, c"relation_id".as_ptr());
        let mut key = pg_sys::ScanKeyData::default();
        pg_sys::ScanKeyEntryInitialize(
            &raw mut key,
            0,
            1,
            pg_sys::BTEqualStrategyNumber as pg_sys::StrategyNumber,
            pg_sys::InvalidOid,
            pg_sys::DEFAULT_COLLATION_OID,
            pg_sys::F_TEXTEQ.into(),
            pg_sys::Datum::from(pg_sys::cstring_to_text(source.as_ptr())),
        );
        // without a snapshot the scan takes one of its own, which sees what is committed now
        let scan = pg_sys::systable_beginscan(
            table,
            find(c"source_pkey")?,
            true,
            null_mut(),
            1,
            &raw mut key,
        );
        let tuple = pg_sys::systable_getnext(scan);
        let reads = std::num::NonZeroUsize::new(column.unsigned_abs().into())
            .filter(|_| !tuple.is_null())
            .and_then(|column| pgrx::htup::heap_getattr_raw(tuple, column, (*table).rd_att))
            .is_some_and(|value| pg_sys::Oid::from_datum(value, false) == Some(relation));
        pg_sys::systable_endscan(scan);
        pg_sys::table_close(table, pg_sys::AccessShareLock as i32);
        Ok(reads)
    }
}

/// A relation of schema `rag`.
fn find(name: &CStr) -> Result<pg_sys::Oid, Error> {
    // SAFETY: a system-cache look-up.
    match unsafe { pg_sys::get_relname_relid(name.as_ptr(), crate::pg::extension::schema()) } {
        pg_sys::InvalidOid => Err(Error::internal(format!(
            "rag.{} has vanished",
            name.to_string_lossy()
        ))),
        oid => Ok(oid),
    }
}

/// A column that the trigger looks at.
struct Attribute {
    index: usize,
    by_value: bool,
    length: i16,
    type_oid: pg_sys::Oid,
    /// Computed when it is read: its bytes are in no row.
    is_virtual: bool,
}

/// The keys to note; `None` for all rows.
///
/// # Errors
/// The arguments do not fit the table: a column was dropped or renamed.
fn changed_keys(data: &pg_sys::TriggerData, call: &Call<'_>) -> Result<Option<Vec<u8>>, Error> {
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
            .map(|(index, a)| Attribute {
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
    let ids: Vec<Attribute> = call.ids.iter().map(attribute).collect::<Result<_, _>>()?;
    let columns: Vec<Attribute> = call
        .columns
        .iter()
        .map(attribute)
        .collect::<Result<_, _>>()?;

    let mut old_table = data.tg_oldtable;
    if event == pg_sys::TRIGGER_EVENT_UPDATE && !ids.iter().any(|id| may_change(data, id)) {
        if !columns.iter().any(|column| may_change(data, column)) {
            return Ok(Some(vec![]));
        }
        // SAFETY: the store of the statement.
        if !unsafe { pg_sys::tuplestore_in_memory(old_table) } {
            // reading it back costs more than a run that finds some of the rows as they were
            old_table = null_mut();
        }
    }
    let (mut old, mut new) = (
        Rows::of(old_table, descriptor),
        Rows::of(data.tg_newtable, descriptor),
    );
    let mut keys = Keys::new(&ids);
    let mut collect = || {
        loop {
            if keys.bytes.len() > MAX_BYTES {
                return Ok(None);
            }
            match (old.next(), new.next()) {
                (true, true) => {
                    let is_same =
                        |a: &Attribute| !a.is_virtual && old.get(a).is_same(&new.get(a), a);
                    let same_key = ids.iter().all(is_same);
                    if !same_key {
                        keys.push(&old);
                    }
                    if !same_key || !columns.iter().all(is_same) {
                        keys.push(&new);
                    }
                }
                (true, false) if data.tg_newtable.is_null() => keys.push(&old),
                (false, true) if old_table.is_null() => keys.push(&new),
                (false, false) => return Ok(Some(std::mem::take(&mut keys.bytes))),
                // Postgres gives as many old rows as new ones; if ever it does not, which belong
                // together is unknown
                _ => return Ok(None),
            }
            pgrx::check_for_interrupts!();
        }
    };
    // as a run reads them, whatever the session has set
    if ids.iter().all(|id| is_plain(id.type_oid)) {
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

/// Whether an UPDATE may have changed a column: it is in its SET, or computed of one that is, or a
/// trigger may have set it.
fn may_change(data: &pg_sys::TriggerData, column: &Attribute) -> bool {
    // SAFETY: the trigger's own relation and columns.
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

/// Whether no setting changes how values of the type are written.
fn is_plain(type_oid: pg_sys::Oid) -> bool {
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
struct Field {
    value: pg_sys::Datum,
    is_null: bool,
}

impl Field {
    fn is_same(&self, other: &Self, attribute: &Attribute) -> bool {
        if self.is_null || other.is_null {
            return self.is_null == other.is_null;
        }
        // SAFETY: two values of the attribute's type, of rows that are still there.
        unsafe {
            datumIsEqual(
                self.value,
                other.value,
                attribute.by_value,
                attribute.length.into(),
            )
        }
    }
}

/// A transition table that is read from its beginning to its end; none has no row.
struct Rows {
    store: *mut pg_sys::Tuplestorestate,
    slot: *mut pg_sys::TupleTableSlot,
    columns: i32,
}

impl Rows {
    fn of(store: *mut pg_sys::Tuplestorestate, descriptor: pg_sys::TupleDesc) -> Self {
        if store.is_null() {
            return Self {
                store,
                slot: null_mut(),
                columns: 0,
            };
        }
        // SAFETY: the store is the statement's, and other triggers read it by positions of their
        // own, as here.
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
            }
        }
    }

    /// Goes to the next row, if there is one.
    fn next(&mut self) -> bool {
        if self.store.is_null() {
            return false;
        }
        // SAFETY: store and slot are there as long as the trigger runs.
        unsafe {
            let found = pg_sys::tuplestore_gettupleslot(self.store, true, false, self.slot);
            if found {
                pg_sys::slot_getsomeattrs_int(self.slot, self.columns);
            }
            found
        }
    }

    fn get(&self, attribute: &Attribute) -> Field {
        // SAFETY: `next` has filled all columns of the slot.
        unsafe {
            Field {
                value: *(*self.slot).tts_values.add(attribute.index),
                is_null: *(*self.slot).tts_isnull.add(attribute.index),
            }
        }
    }
}

impl Drop for Rows {
    fn drop(&mut self) {
        if !self.slot.is_null() {
            // SAFETY: made in `of`, and not used afterwards.
            unsafe { pg_sys::ExecDropSingleTupleTableSlot(self.slot) };
        }
    }
}

/// The keys so far.
struct Keys<'a> {
    ids: &'a [Attribute],
    output: Vec<pg_sys::FmgrInfo>,
    /// Emptied after each row.
    scratch: pg_sys::MemoryContext,
    bytes: Vec<u8>,
}

impl<'a> Keys<'a> {
    fn new(ids: &'a [Attribute]) -> Self {
        let output = ids
            .iter()
            .map(|id| {
                let mut output = pg_sys::FmgrInfo::default();
                // SAFETY: looks up the type's own output function.
                unsafe {
                    let (mut function, mut is_varlena) = (pg_sys::InvalidOid, false);
                    pg_sys::getTypeOutputInfo(id.type_oid, &mut function, &mut is_varlena);
                    pg_sys::fmgr_info(function, &mut output);
                }
                output
            })
            .collect();
        // SAFETY: a context below the present one, which ends with the statement.
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

    fn push(&mut self, row: &Rows) {
        for (id, output) in self.ids.iter().zip(&mut self.output) {
            let field = row.get(id);
            if field.is_null {
                self.bytes.extend(NULL.to_le_bytes());
                continue;
            }
            // SAFETY: the type's output function on a value of it gives a C string in the present
            // context.
            unsafe {
                let before = pg_sys::MemoryContextSwitchTo(self.scratch);
                let text = CStr::from_ptr(pg_sys::OutputFunctionCall(output, field.value));
                self.bytes.extend((text.count_bytes() as u32).to_le_bytes());
                self.bytes.extend(text.to_bytes());
                pg_sys::MemoryContextSwitchTo(before);
            }
        }
        // SAFETY: nothing in it is used any more.
        unsafe { pg_sys::MemoryContextReset(self.scratch) };
    }
}

/// Adds a row to `rag.table_changes`: the keys of a statement, or `None` for all rows.
fn insert(source: &CStr, keys: Option<&[u8]>) -> Result<(), Error> {
    // SAFETY: a tuple of the table's own columns, all of which exist as long as the extension's
    // version is this one.
    unsafe {
        let id = nextval_internal(find(c"table_change_id")?, false);
        let table = pg_sys::table_open(find(c"table_changes")?, pg_sys::RowExclusiveLock as i32);
        let mut values = [
            pg_sys::Datum::from(id),
            pg_sys::Datum::from(pg_sys::cstring_to_text(source.as_ptr())),
            keys.map_or(pg_sys::Datum::null(), |keys| {
                let length = i32::try_from(keys.len()).unwrap_or(i32::MAX);
                pg_sys::Datum::from(pg_sys::cstring_to_text_with_len(
                    keys.as_ptr().cast(),
                    length,
                ))
            }),
        ];
        let mut nulls = [false, false, keys.is_none()];
        let tuple =
            pg_sys::heap_form_tuple((*table).rd_att, values.as_mut_ptr(), nulls.as_mut_ptr());
        pg_sys::simple_heap_insert(table, tuple);
        pg_sys::table_close(table, pg_sys::NoLock as i32);
    }
    Ok(())
}

/// The keys of a queued row, each of so many parts. Keys with a NULL are left out: no document is
/// made of such a row.
///
/// # Errors
/// The bytes are none that [`insert`] wrote for so many id columns.
pub fn decode(mut bytes: &[u8], parts: usize) -> Result<Vec<super::rows::Key>, Error> {
    let damaged = || Error::data_exception("a row of rag.table_changes is damaged");
    let mut keys = vec![];
    while !bytes.is_empty() {
        let key: Option<Vec<String>> = (0..parts)
            .map(|_| {
                let (length, rest) = bytes.split_first_chunk::<4>().ok_or_else(damaged)?;
                bytes = rest;
                let length = u32::from_le_bytes(*length);
                if length == NULL {
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

/// The arguments of the triggers of a source, as CREATE TRIGGER takes them and as Postgres stores
/// them.
pub struct Arguments(Vec<String>);

impl Arguments {
    pub fn new(source: &str, ids: &[&str], columns: &[&str]) -> Self {
        let mut arguments = vec![source.to_string(), ids.len().to_string()];
        arguments.extend(ids.iter().chain(columns).map(ToString::to_string));
        Self(arguments)
    }

    pub fn to_sql(&self) -> String {
        self.0
            .iter()
            .map(pgrx::spi::quote_literal)
            .collect::<Vec<_>>()
            .join(", ")
    }

    /// `pg_trigger.tgargs`.
    pub fn stored(&self) -> Vec<u8> {
        self.0
            .iter()
            .flat_map(|a| {
                CString::new(a.as_str())
                    .unwrap_or_default()
                    .into_bytes_with_nul()
            })
            .collect()
    }
}
