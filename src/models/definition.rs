//! Models: create, alter, drop, grant.

use rag_definition::{
    FieldProblem, SecretRef,
    model::{ModelKind, Provider, check_model_spec},
    source::Login,
};
use serde_json::Value;

use super::{
    embedding::{cache, check_folders},
    test, usage, users,
};
use crate::{
    catalog::{
        access,
        models::{self, Model, ModelRow, secret_of},
        name::Name,
    },
    engine::folders,
    error::{Cause, Error},
    pg::{
        roles::{self, Owner},
        spi::as_owner,
    },
    secrets, settings,
};

/// Creates a model, which the current role then owns.
///
/// # Errors
/// The definition is invalid, or a model of the name exists.
pub fn create(name: &Name, kind: &str, provider: &str, spec: &Value) -> Result<(), Error> {
    roles::require_admin("create a model")?;
    let name = name.as_str();
    let kind = parse_kind(kind)?;
    let provider = parse_provider(kind, provider)?;
    if kind == ModelKind::Embedding && settings::model(Some(name)).is_ok() {
        return Err(Error::duplicate(format!("model \"{name}\" is installed"))
            .hint("Choose another name, so that it is clear which one a collection names."));
    }
    if name == models::LATE {
        return Err(Error::duplicate("model \"late\" is built in").hint(
            "Choose another name. A reranker of provider \"local\" with the settings \
                 {\"late\": true} is the same with other settings.",
        ));
    }
    let owner = Owner::current()?;
    let (spec, secret) = checked(name, kind, provider, spec, &owner)?;
    let row = ModelRow {
        spec: &spec,
        secret: secret.as_ref(),
        owner: &owner,
    };
    if as_owner(|owner| models::create(owner, name, kind, provider, &row))? {
        return test::note(name);
    }
    Err(Error::duplicate(format!("model \"{name}\" already exists"))
        .hint("Change it with rag_alter_model."))
}

/// Changes the settings or the owner of a model. None leaves them as they are.
///
/// # Errors
/// The settings are invalid, or the caller does not own the model.
pub fn alter(name: &Name, spec: Option<&Value>, owner: Option<&str>) -> Result<(), Error> {
    let present = owned(name.as_str(), "change")?;
    roles::require_admin("change a model")?;
    let owner = match owner {
        Some(owner) => roles::future_owner(owner, "model")?,
        None => present.owner.clone(),
    };
    let spec = spec.unwrap_or(&present.spec);
    let (kind, provider) = (present.kind, present.provider);
    let (spec, secret) = checked(&present.name, kind, provider, spec, &owner)?;
    let row = ModelRow {
        spec: &spec,
        secret: secret.as_ref(),
        owner: &owner,
    };
    let is_other = vectors_depend_on(&present.spec) != vectors_depend_on(&spec);
    if kind == ModelKind::Embedding && is_other {
        users::check_change(&present)?;
    }
    as_owner(|owner| models::update(owner, &present.name, &row))?;
    test::note(&present.name)
}

/// Returns the settings without those that change neither vectors nor chunks.
fn vectors_depend_on(spec: &Value) -> Value {
    const OTHERS: [&str; 11] = [
        "queryPrefix",
        "api_key",
        "timeout",
        "requestsPerMinute",
        "tokensPerMinute",
        "tokensPerDay",
        "prices",
        "description",
        "batch",
        "concurrency",
        "tokenizer",
    ];
    let fields = spec.as_object().into_iter().flatten();
    let kept = fields.filter(|(key, _)| !OTHERS.contains(&key.as_str()));
    Value::Object(
        kept.map(|(key, value)| (key.clone(), value.clone()))
            .collect(),
    )
}

/// Drops a model, its grants, its counts and its cached embeddings. Returns false if it does not
/// exist.
///
/// # Errors
/// The caller does not own it.
pub fn drop(name: &str) -> Result<bool, Error> {
    let Some(present) = as_owner(|owner| models::lock(owner, name))? else {
        return Ok(false);
    };
    require_owner(&present, "drop")?;
    users::check_unused(&present)?;
    as_owner(|owner| models::drop(owner, &present.name))?;
    forget_folders(&present);
    usage::forget_at_commit(present.uid.to_string());
    cache::forget_model_at_commit(present.uid);
    Ok(true)
}

/// Lets the next engine read no folder of a model. Another model that has the same folder adds it
/// again.
fn forget_folders(model: &Model) {
    let Ok(settings) = model.settings() else {
        return;
    };
    let tokenizer = settings.embedding.tokenizer.as_deref();
    for folder in [Some(&*settings.path), tokenizer].into_iter().flatten() {
        if !folder.as_os_str().is_empty() {
            folders::forget(folder);
        }
    }
}

/// Allows a role to use a model. `public` stands for all roles.
///
/// # Errors
/// The caller does not own the model, or there is no such role.
pub fn grant(name: &str, role: &str) -> Result<(), Error> {
    let present = owned(name, "grant the use of")?;
    let role = access::grantee(role)?;
    as_owner(|owner| models::grant(owner, &present.name, &role))
}

/// # Errors
/// See [`grant`].
pub fn revoke(name: &str, role: &str) -> Result<(), Error> {
    let present = owned(name, "revoke the use of")?;
    let role = access::grantee(role)?;
    as_owner(|owner| models::revoke(owner, &present.name, &role))
}

/// Returns a model that the current role owns, and locks it.
fn owned(name: &str, to_do: &str) -> Result<Model, Error> {
    let present =
        as_owner(|owner| models::lock(owner, name))?.ok_or_else(|| models::missing(name))?;
    require_owner(&present, to_do)?;
    Ok(present)
}

fn require_owner(model: &Model, to_do: &str) -> Result<(), Error> {
    if roles::may_act_for(roles::current(), model.owner.id) {
        return Ok(());
    }
    Err(Error::permission_denied(format!(
        "permission denied to {to_do} model \"{}\"",
        model.name
    ))
    .hint("Must be a member of the role that owns the model."))
}

fn parse_kind(name: &str) -> Result<ModelKind, Error> {
    if let Some(kind) = ModelKind::parse(name) {
        return Ok(kind);
    }
    let valid = ModelKind::ALL.map(ModelKind::name);
    Err(unknown(&format!("kind \"{}\"", shown(name)), &valid))
}

fn parse_provider(kind: ModelKind, name: &str) -> Result<Provider, Error> {
    let valid = kind.providers();
    let provider = Provider::parse(name).filter(|provider| valid.contains(provider));
    provider.ok_or_else(|| {
        let what = format!("provider \"{}\" of kind \"{}\"", shown(name), kind.name());
        let names: Vec<&str> = valid.iter().map(|provider| provider.name()).collect();
        unknown(&what, &names)
    })
}

fn shown(text: &str) -> String {
    text.chars().take(80).collect()
}

fn unknown(what: &str, valid: &[&str]) -> Error {
    Error::invalid_parameter(format!("unknown {what}"))
        .hint(format!("Valid values are {}.", valid.join(", ")))
}

/// Returns the settings without keys that are `null`, and the secret that they name.
fn checked(
    name: &str,
    kind: ModelKind,
    provider: Provider,
    spec: &Value,
    owner: &Owner,
) -> Result<(Value, Option<SecretRef>), Error> {
    let invalid = |problems: &[FieldProblem]| models::invalid(name, problems);
    let (spec, settings) =
        check_model_spec(kind, provider, spec).map_err(|problems| invalid(&problems))?;
    check_folders(&settings, owner.id)?;
    let secret = secret_of(name, &settings);
    if let Some(named) = &secret {
        let usable = secrets::check_use(named, owner.id)
            .and_then(|()| secrets::check_value(named, Login::Password));
        usable.map_err(|error| match error.cause() {
            // a missing right is no mistake in the definition
            Cause::Right => error,
            _ => {
                let problem = FieldProblem::new("spec.api_key.secretRef", error.message);
                match error.hint {
                    Some(hint) => invalid(&[problem.hint(hint)]),
                    None => invalid(&[problem]),
                }
            }
        })?;
    }
    Ok((spec, secret))
}
