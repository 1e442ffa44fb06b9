//! Plans of statements.
#![allow(unsafe_code)] // SPI

use std::ffi::{CStr, CString};

use pgrx::{Spi, datum::DatumWithOid, pg_sys};
use serde_json::Value;

use super::spi::Rights;
use crate::error::Error;

/// Returns the plan of a statement, as EXPLAIN shows it. The statement is not run.
///
/// PostgreSQL takes EXPLAIN for a statement that writes. pgrx would give the transaction an id for
/// that, which no transaction of a standby can have.
///
/// # Errors
/// The statement cannot be planned.
pub fn explain(
    rights: &Rights,
    statement: &str,
    args: &[DatumWithOid<'_>],
) -> Result<Value, Error> {
    rights.check()?;
    let text = CString::new(format!("EXPLAIN (FORMAT JSON) {statement}"));
    let text = text.map_err(|_| Error::internal("a statement contains a zero byte"))?;
    let mut types: Vec<pg_sys::Oid> = args.iter().map(DatumWithOid::oid).collect();
    let datum = |arg: &DatumWithOid<'_>| arg.datum().map(|datum| datum.sans_lifetime());
    let nulls: Vec<std::ffi::c_char> = args
        .iter()
        .map(|arg| if datum(arg).is_some() { b' ' } else { b'n' } as std::ffi::c_char)
        .collect();
    let mut values: Vec<pg_sys::Datum> = args
        .iter()
        .map(|arg| datum(arg).unwrap_or(pg_sys::Datum::null()))
        .collect();
    Spi::connect(|_| {
        // SAFETY: connected to SPI; the arrays have an element for each parameter. The result is
        // copied before SPI ends.
        let plan = unsafe {
            pg_sys::SPI_execute_with_args(
                text.as_ptr(),
                args.len() as i32,
                types.as_mut_ptr(),
                values.as_mut_ptr(),
                nulls.as_ptr(),
                false,
                0,
            );
            let table = pg_sys::SPI_tuptable.as_ref();
            table.filter(|table| table.numvals > 0).and_then(|table| {
                let plan = pg_sys::SPI_getvalue(*table.vals, table.tupdesc, 1);
                (!plan.is_null()).then(|| CStr::from_ptr(plan).to_bytes().to_vec())
            })
        };
        let plan = plan.ok_or_else(|| Error::internal("EXPLAIN has returned nothing"))?;
        serde_json::from_slice(&plan)
            .map_err(|e| Error::internal(format!("EXPLAIN has returned no JSON: {e}")))
    })
}

/// A scan of a table or an index in a plan.
pub struct PlannedScan {
    /// As EXPLAIN writes it.
    pub description: String,
    /// True if the index returns rows in the order of an expression, such as a distance.
    pub is_ordered: bool,
}

/// Returns the scans of tables and indexes of a plan.
pub fn scans(plan: &Value) -> Vec<PlannedScan> {
    let mut found = vec![];
    collect_scans(&plan[0]["Plan"], &mut found);
    found
}

fn collect_scans(node: &Value, found: &mut Vec<PlannedScan>) {
    let text = |key: &str| node[key].as_str();
    if let Some(kind) = text("Node Type") {
        let description = match (text("Index Name"), text("Relation Name")) {
            (Some(index), _) => Some(format!("{kind} using {index}")),
            (None, Some(table)) => Some(format!("{kind} on {table}")),
            (None, None) => None,
        };
        found.extend(description.map(|description| PlannedScan {
            description,
            is_ordered: text("Order By").is_some(),
        }));
    }
    for child in node["Plans"].as_array().into_iter().flatten() {
        collect_scans(child, found);
    }
}
