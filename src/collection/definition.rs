//! The checks of a definition that need the database. `rag_definition::collection` has the others.

use std::ffi::CString;

use rag_definition::{Splitting, Unit, collection::CollectionDefinition};
use rag_language::AUTO;

use crate::{
    error::{Error, definition::DefinitionErrors},
    pg::{text_search, transaction::subtransaction},
};

/// The name that stands for [`AUTO`].
const AUTO_NAME: &str = "auto";

/// Returns a definition as it is stored: within its limits, and with the name of its text search
/// configuration qualified. `before` is the definition that it changes.
pub fn checked(
    definition: CollectionDefinition,
    before: Option<&CollectionDefinition>,
    errors: &mut DefinitionErrors,
) -> Option<CollectionDefinition> {
    let given = definition.text_config.as_str();
    let is_known = before.is_some_and(|before| before.text_config == given);
    let text_config = if is_known {
        Some(given.to_owned())
    } else {
        // Postgres raises the error
        let qualified = subtransaction(|| qualified_text_config(given));
        errors.note("text_config", qualified)
    };
    let checked = definition.checked();
    let checked = checked.map_err(|problems| errors.extend_with_messages(problems));
    Some(CollectionDefinition {
        text_config: text_config?,
        ..checked.ok()?
    })
}

/// Returns the splitting for sizes of chunks that a user gives.
///
/// # Errors
/// A size is out of range, or the unit is unknown.
pub fn splitting(chunk_size: i32, chunk_overlap: i32, unit: &str) -> Result<Splitting, Error> {
    let sizes = CollectionDefinition {
        chunk_size: Some(chunk_size),
        chunk_overlap: Some(chunk_overlap),
        chunk_unit: Unit::parse(unit).map_err(Error::of_problem)?,
        ..Default::default()
    };
    let mut errors = DefinitionErrors::default();
    match sizes.checked() {
        Ok(checked) => Ok(checked.splitting()),
        Err(problems) => {
            errors.extend_with_messages(problems);
            Err(errors.to_error("invalid sizes of chunks"))
        }
    }
}

/// Returns the name of a text search configuration with its schema. The name is looked up like
/// that of a table, except for `auto`.
///
/// # Errors
/// It does not exist.
pub fn qualified_text_config(name: &str) -> Result<String, Error> {
    if name == AUTO_NAME {
        return Ok(AUTO.to_owned());
    }
    let text = CString::new(name).map_err(|_| Error::invalid_parameter("a name contains NUL"))?;
    let qualified = text_search::qualified_name(&text)?;
    qualified.ok_or_else(|| {
        Error::undefined(format!(
            "text search configuration \"{name}\" does not exist"
        ))
    })
}
