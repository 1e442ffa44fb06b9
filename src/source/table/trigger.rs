//! The trigger function that records which rows a statement has changed:
//! `rag_internal.table_changed(source, n, id columns..., columns...)`.
//!
//! Only the extension creates such triggers. A trigger that was created by hand with other
//! arguments raises an error. A trigger on a relation that the source does not read records
//! nothing, and warns.
//!
//! It runs in the writer's transaction, so it must be cheap and must never make that transaction
//! fail:
//!
//! * For an UPDATE that sets none of the columns of a document, the SET list alone shows that
//!   nothing is to be recorded.
//! * For any other UPDATE, old and new rows are read side by side. A row is recorded only if the
//!   bytes of one of these columns differ. Rows that did not fit into work_mem are all recorded,
//!   unless their keys may have changed. Values stored in TOAST are compared by their pointers
//!   without being read: an unchanged value keeps its pointer.
//! * All keys of a statement become one row of `rag_internal.table_change`. That table has no
//!   index, and the row is inserted without a plan.
//! * What logical replication applies has no statements. A trigger for each row records it, which
//!   fires for nothing else.
//! * All of this runs in a subtransaction. If it fails, the next run is told to read the whole
//!   table instead. If even that cannot be recorded, the user gets a WARNING. Only the cancellation
//!   of a statement is passed on.
//!
//! [`super::changed_keys`] describes the encoding of keys.
#![allow(unsafe_code)] // the trigger's call, the tuple stores, a heap insert without a plan

use std::{
    cell::RefCell,
    ffi::{CStr, CString},
    ptr::null_mut,
};

use pgrx::{FromDatum, PgSqlErrorCode, pg_guard, pg_sys};

use super::{changed_keys::changed_keys, changes::REPLICA};
use crate::{
    cluster::news,
    error::Error,
    pg::{compat::next_value, extension, transaction::subtransaction, version},
};

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
    // SAFETY: the call is valid by contract; the tag of its context tells a trigger's call.
    unsafe {
        let context = (*call).context;
        if context.is_null() || (*context).type_ != pg_sys::NodeTag::T_TriggerData {
            Error::new(
                PgSqlErrorCode::ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED,
                "rag_internal.table_changed() can only be called as a trigger",
            )
            .raise();
        }
        let data = &*context.cast::<pg_sys::TriggerData>();
        match TriggerCall::read(data) {
            Ok(call) => record(data, &call),
            Err(error) => error.raise(),
        }
    }
    pg_sys::Datum::null()
}

/// The arguments of a trigger that the extension created.
pub(super) struct TriggerCall<'a> {
    source: &'a CStr,
    /// The id columns of the relation.
    pub(super) ids: Vec<&'a CStr>,
    /// The other columns whose values go into a document.
    pub(super) columns: Vec<&'a CStr>,
}

impl<'a> TriggerCall<'a> {
    /// # Errors
    /// The trigger does not have the form of those that the extension creates.
    fn read(data: &'a pg_sys::TriggerData) -> Result<Self, Error> {
        let is_row = data.tg_event & pg_sys::TRIGGER_EVENT_ROW != 0;
        let has_rows = match data.tg_event & pg_sys::TRIGGER_EVENT_OPMASK {
            // SAFETY: Postgres gives the trigger.
            _ if is_row => unsafe { is_for_replicas(&*data.tg_trigger) },
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
        if data.tg_event & pg_sys::TRIGGER_EVENT_TIMINGMASK == pg_sys::TRIGGER_EVENT_AFTER
            && has_rows
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
            "rag_internal.table_changed() was called by a trigger that the extension did not \
             create",
        )
        .hint("Drop the trigger: rag_create_source() creates the triggers that a source needs."))
    }
}

fn record(data: &pg_sys::TriggerData, call: &TriggerCall<'_>) {
    // SAFETY: the relation stays open while the trigger runs.
    let relation = unsafe { (*data.tg_relation).rd_id };
    let source = call.source.to_string_lossy();
    // SAFETY: Postgres gives the trigger.
    let fires_for_replicas = unsafe { fires_for_replicas(&*data.tg_trigger) };
    if data.tg_event & pg_sys::TRIGGER_EVENT_ROW != 0 && !fires_for_replicas {
        return; // the triggers of statements record the row
    }
    let how = REPLICATED.with_borrow_mut(|known| known.record(data));
    if how == Recorded::Before {
        return;
    }
    let recorded = subtransaction(|| {
        if !reads(call.source, relation)? {
            pgrx::warning!(
                "rag: a change was not recorded for source \"{source}\", which does not read the \
                 table"
            );
            return Ok(());
        }
        let keys = match how {
            Recorded::AllRows => None,
            _ => changed_keys(data, call)?,
        };
        if keys.as_ref().is_some_and(Vec::is_empty) {
            return Ok(()); // no column of a document has changed
        }
        insert(call.source, keys.as_deref())?;
        news::sync_changes_at_commit();
        Ok(())
    });
    let Err(error) = recorded else { return };
    let everything = subtransaction(|| {
        if reads(call.source, relation)? {
            insert(call.source, None)?;
            news::sync_changes_at_commit();
            Ok(())
        } else {
            Ok(())
        }
    });
    if let Err(worse) = everything {
        pgrx::warning!(
            "rag: source \"{source}\" may miss a change until its next full scan: {error}; {worse}"
        );
    }
}

fn fires_for_replicas(trigger: &pg_sys::Trigger) -> bool {
    [b'R', b'A'].contains(&(trigger.tgenabled as u8))
}

/// Returns true for a trigger of the extension, although ENABLE TRIGGER ALL may have set it to fire
/// for sessions.
fn is_for_replicas(trigger: &pg_sys::Trigger) -> bool {
    // SAFETY: the name of a trigger is a C string.
    let name = unsafe { CStr::from_ptr(trigger.tgname) };
    fires_for_replicas(trigger) || name.to_bytes().starts_with(REPLICA.as_bytes())
}

/// The number of rows of one transaction that are recorded by themselves.
const MAX_REPLICATED_ROWS: u32 = 10_000;

/// What logical replication has applied to a table in the current transaction. It calls a trigger
/// for each row. Of a transaction with many, such as the first copy of a table, the rest is
/// recorded as one change of all rows.
struct Replicated {
    transaction: pg_sys::TransactionId,
    /// The triggers that were called, and the number of rows of each.
    rows: Vec<(pg_sys::Oid, u32)>,
}

thread_local! {
    static REPLICATED: RefCell<Replicated> = const { RefCell::new(Replicated {
        transaction: pg_sys::InvalidTransactionId,
        rows: vec![],
    }) };
}

#[derive(PartialEq, Eq)]
enum Recorded {
    /// By itself.
    Row,
    /// As a change of all rows.
    AllRows,
    /// By a change of all rows that is recorded already.
    Before,
}

impl Replicated {
    /// Returns how to record the row for which a trigger is called.
    fn record(&mut self, data: &pg_sys::TriggerData) -> Recorded {
        if data.tg_event & pg_sys::TRIGGER_EVENT_ROW == 0 {
            return Recorded::Row;
        }
        // SAFETY: Postgres gives the trigger; the others are reads of this process's state.
        let (trigger, transaction, level) = unsafe {
            (
                (*data.tg_trigger).tgoid,
                pg_sys::GetTopTransactionIdIfAny(),
                pg_sys::GetCurrentTransactionNestLevel(),
            )
        };
        if self.transaction != transaction {
            self.transaction = transaction;
            self.rows.clear();
        }
        let place = self.rows.iter().position(|(known, _)| *known == trigger);
        let place = place.unwrap_or_else(|| {
            self.rows.push((trigger, 0));
            self.rows.len() - 1
        });
        let rows = &mut self.rows[place].1;
        match *rows {
            MAX_REPLICATED_ROWS.. => Recorded::Before,
            // what a subtransaction records may be rolled back
            _ if level > 1 => Recorded::Row,
            _ => {
                *rows += 1;
                if *rows == MAX_REPLICATED_ROWS {
                    Recorded::AllRows
                } else {
                    Recorded::Row
                }
            }
        }
    }
}

/// Returns true if the source reads the relation, according to its present row.
fn reads(source: &CStr, relation: pg_sys::Oid) -> Result<bool, Error> {
    // SAFETY: an index scan on a table of the extension, closed before its result is used.
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
        // without a snapshot the scan takes its own, which sees what is committed now
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

/// Returns the OID of a relation of schema `rag_internal`.
fn find(name: &CStr) -> Result<pg_sys::Oid, Error> {
    extension::internal_relation(name).ok_or_else(|| {
        Error::internal(format!(
            "rag_internal.{} has vanished",
            name.to_string_lossy()
        ))
    })
}

/// Adds a row to `rag_internal.table_change` with the keys of a statement. None stands for all
/// rows of the table.
fn insert(source: &CStr, keys: Option<&[u8]>) -> Result<(), Error> {
    // SAFETY: a tuple with the columns of the table, which do not change within a version of the
    // extension.
    unsafe {
        let id = next_value(find(c"table_change_id")?);
        let table = pg_sys::table_open(find(c"table_change")?, pg_sys::RowExclusiveLock as i32);
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
        if usize::try_from((*(*table).rd_att).natts) != Ok(values.len()) {
            version::require_equal()?;
            return Err(Error::internal(
                "rag_internal.table_change has other columns",
            ));
        }
        let tuple =
            pg_sys::heap_form_tuple((*table).rd_att, values.as_mut_ptr(), nulls.as_mut_ptr());
        pg_sys::simple_heap_insert(table, tuple);
        pg_sys::table_close(table, pg_sys::NoLock as i32);
    }
    Ok(())
}

/// The arguments of a source's triggers, in the form of CREATE TRIGGER and in the form in which
/// Postgres stores them.
pub struct TriggerArguments(Vec<String>);

impl TriggerArguments {
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

    /// Returns the arguments as `pg_trigger.tgargs` stores them.
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
