//! Who may use a model, and for what.

use pgrx::{PgSqlErrorCode, spi::quote_literal};
use rag_definition::model::ModelKind;

use crate::{catalog::models::Model, error::Error, pg::roles};

/// # Errors
/// The current role may not use the model. It then learns no more than that.
pub fn require_use(model: &Model) -> Result<(), Error> {
    if model.may_use(roles::current()) {
        return Ok(());
    }
    let (name, role) = (&model.name, roles::current_name().unwrap_or_default());
    Err(
        Error::permission_denied(format!("permission denied to use model \"{name}\"")).hint(
            format!(
                "The owner can grant it: SELECT rag_grant_model({}, {}).",
                quote_literal(name),
                quote_literal(role)
            ),
        ),
    )
}

/// # Errors
/// The model does something else.
pub fn require_kind(model: &Model, kind: ModelKind) -> Result<(), Error> {
    if model.kind == kind {
        return Ok(());
    }
    let (name, is, needed) = (&model.name, model.kind.name(), kind.name());
    Err(Error::new(
        PgSqlErrorCode::ERRCODE_WRONG_OBJECT_TYPE,
        format!("model \"{name}\" is of kind \"{is}\", and \"{needed}\" is needed"),
    ))
}
