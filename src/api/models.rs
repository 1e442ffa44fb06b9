//! Models: create, alter, drop, grant, test; and functions of their views.

use pgrx::{iter::TableIterator, name, pg_extern, pg_sys::panic::ErrorReport};
use rag_definition::usage::in_sql;
use serde_json::Value;

use super::required;
use crate::{
    catalog::{
        models as catalog,
        name::{Name, canonical},
    },
    error::{Cause, Error},
    models::{self, definition, embedding::cache, test},
    pg::{json::JsonbText, roles},
    settings,
};

fn parsed(spec: &JsonbText) -> Result<Value, Error> {
    let parsed = spec.parse();
    parsed.map_err(|e| Error::invalid_parameter(format!("spec: {e}")).because(Cause::Definition))
}

#[pg_extern]
fn rag_create_model(
    name: Option<&str>,
    kind: Option<&str>,
    provider: Option<&str>,
    spec: Option<JsonbText>,
) -> Result<(), ErrorReport> {
    super::prevent_on_standby(c"rag_create_model()");
    let name = Name::model(required("name", name)?)?;
    let spec = parsed(&required("spec", spec)?)?;
    Ok(definition::create(
        &name,
        required("kind", kind)?,
        required("provider", provider)?,
        &spec,
    )?)
}

#[pg_extern]
fn rag_alter_model(
    name: Option<&str>,
    spec: pgrx::default!(Option<JsonbText>, "NULL"),
    owner: pgrx::default!(Option<&str>, "NULL"),
) -> Result<(), ErrorReport> {
    super::prevent_on_standby(c"rag_alter_model()");
    let name = Name::model(required("name", name)?)?;
    let spec = spec.as_ref().map(parsed).transpose()?;
    Ok(definition::alter(&name, spec.as_ref(), owner)?)
}

#[pg_extern]
fn rag_drop_model(
    name: Option<&str>,
    if_exists: pgrx::default!(Option<bool>, "false"),
) -> Result<(), ErrorReport> {
    super::prevent_on_standby(c"rag_drop_model()");
    let name = canonical(required("name", name)?);
    let if_exists = required("if_exists", if_exists)?;
    if definition::drop(name)? {
        return Ok(());
    }
    if if_exists {
        pgrx::notice!("model \"{name}\" does not exist, skipping");
        return Ok(());
    }
    Err(catalog::missing(name).into())
}

#[pg_extern]
fn rag_grant_model(name: Option<&str>, role: Option<&str>) -> Result<(), ErrorReport> {
    super::prevent_on_standby(c"rag_grant_model()");
    let name = canonical(required("name", name)?);
    Ok(definition::grant(name, required("role", role)?)?)
}

#[pg_extern]
fn rag_revoke_model(name: Option<&str>, role: Option<&str>) -> Result<(), ErrorReport> {
    super::prevent_on_standby(c"rag_revoke_model()");
    let name = canonical(required("name", name)?);
    Ok(definition::revoke(name, required("role", role)?)?)
}

#[pg_extern(volatile)]
#[allow(clippy::type_complexity)] // the columns of the result
fn rag_test_model(
    name: Option<&str>,
) -> Result<
    TableIterator<
        'static,
        (
            name!(success, bool),
            name!(message, String),
            name!(latency_ms, f64),
            name!(dimensions, Option<i32>),
        ),
    >,
    ErrorReport,
> {
    let test = test::test(canonical(required("name", name)?))?;
    Ok(TableIterator::once((
        test.success,
        test.message,
        test.latency.as_micros() as f64 / 1e3,
        test.dimensions.and_then(|n| i32::try_from(n).ok()),
    )))
}

#[pg_extern(volatile)]
fn rag_clear_embedding_cache() -> Result<i64, ErrorReport> {
    roles::require_database_owner("clear the cache of embeddings")?;
    Ok(count(cache::clear()?.entries))
}

fn count(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

// -- for the views, with the rights of the reading role

#[pg_extern(sql = false)]
fn embedding_cache_size() -> Result<
    TableIterator<
        'static,
        (
            name!(entries, i64),
            name!(bytes, i64),
            name!(max_bytes, i64),
        ),
    >,
    ErrorReport,
> {
    if !roles::is_admin() && !roles::is_monitor(roles::current()) {
        return Ok(TableIterator::empty());
    }
    let size = cache::size()?;
    let most = settings::embedding_cache_bytes();
    Ok(TableIterator::once((
        count(size.entries),
        count(size.bytes),
        count(most),
    )))
}

#[pg_extern(sql = false)]
fn usable_models() -> Result<Vec<String>, ErrorReport> {
    let role = roles::current();
    Ok(names(|model| model.may_use(role))?)
}

#[pg_extern(sql = false)]
fn visible_models() -> Result<Vec<String>, ErrorReport> {
    let (role, sees_all) = (roles::current(), roles::is_admin());
    Ok(names(|model| sees_all || model.may_use(role))?)
}

fn names(keep: impl Fn(&catalog::Model) -> bool) -> Result<Vec<String>, Error> {
    let all = catalog::all()?.into_iter().filter(keep);
    Ok(all.map(|model| model.name).collect())
}

#[pg_extern(sql = false)]
fn default_prompt_template() -> &'static str {
    rag_definition::model::DEFAULT_TEMPLATE
}

#[pg_extern(sql = false)]
#[allow(clippy::type_complexity)] // the columns of the result
fn model_counts() -> Result<
    TableIterator<
        'static,
        (
            name!(model, String),
            name!(day, i32),
            name!(calls, i64),
            name!(errors, i64),
            name!(input_tokens, i64),
            name!(output_tokens, i64),
            name!(estimated, i64),
            name!(cost, Option<i64>),
        ),
    >,
    ErrorReport,
> {
    let (role, sees_all) = (roles::current(), roles::is_admin());
    let mut visible = catalog::all()?;
    visible.retain(|model| sees_all || model.may_use(role));
    let rows = models::counts()?
        .into_iter()
        .filter_map(move |(uid, day, counts)| {
            let model = visible.iter().find(|model| model.uid.to_string() == uid)?;
            Some((
                model.name.clone(),
                day as i32,
                in_sql(counts.calls),
                in_sql(counts.errors),
                in_sql(counts.input_tokens),
                in_sql(counts.output_tokens),
                in_sql(counts.estimated),
                counts.cost.map(in_sql),
            ))
        });
    Ok(TableIterator::new(rows))
}
