//! `rag_internal.model` and `rag_internal.model_grant`: models, and the roles that may use them.

use pgrx::{JsonB, datum::DatumWithOid, pg_sys};
use rag_definition::{
    SecretRef,
    model::{ModelKind, ModelSpec, Provider, check_model_spec},
    name::split,
};
use serde_json::Value;

use super::{access::PUBLIC, secrets};
use crate::{
    error::Error,
    pg::{
        roles::{self, Owner},
        spi::{OwnerRights, Row, as_owner},
    },
};

pub struct Model {
    pub name: String,
    pub uid: pgrx::Uuid,
    pub kind: ModelKind,
    pub provider: Provider,
    pub spec: Value,
    pub owner: Owner,
    /// Roles that may use it besides the owner. [`PUBLIC`] stands for all roles.
    users: Vec<pg_sys::Oid>,
}

/// The name of the reranker that needs no registration.
pub const LATE: &str = "late";

const COLUMNS: &str = "m.name, m.uid, m.kind, m.provider, m.spec, m.owner, m.owner_id,
    ARRAY(SELECT g.role_id FROM rag_internal.model_grant g
          WHERE g.model = m.name AND g.role_id IS NOT NULL) AS users";

/// Returns the error for a model that does not exist.
pub fn missing(name: &str) -> Error {
    Error::undefined(format!("model \"{name}\" does not exist")).hint(
        "The view rag.models lists the models that you may use. Create one with rag_create_model.",
    )
}

impl Model {
    fn read(row: &Row<'_, '_>) -> Result<Self, Error> {
        let (kind, provider): (String, String) = (row.required("kind")?, row.required("provider")?);
        let unknown = || Error::data_exception(format!("unknown model: {kind}, {provider}"));
        Ok(Self {
            name: row.required("name")?,
            uid: row.required("uid")?,
            kind: ModelKind::parse(&kind).ok_or_else(unknown)?,
            provider: Provider::parse(&provider).ok_or_else(unknown)?,
            spec: row.required::<JsonB>("spec")?.0,
            owner: Owner::stored(row.required("owner_id")?, row.required("owner")?),
            users: row.required("users")?,
        })
    }

    /// Returns false for the reranker that is built in.
    pub fn is_registered(&self) -> bool {
        self.name != LATE
    }

    /// Returns the reranker that compares the tokens of the default model. All roles may use it, as
    /// they may embed texts with that model.
    fn late() -> Result<Self, Error> {
        Ok(Self {
            name: LATE.into(),
            uid: pgrx::Uuid::from_bytes([0; 16]),
            kind: ModelKind::Rerank,
            provider: Provider::Local,
            spec: serde_json::json!({"late": true}),
            owner: Owner::current()?,
            users: vec![PUBLIC],
        })
    }

    /// Returns the settings.
    ///
    /// # Errors
    /// Somebody has changed the table by hand.
    pub fn settings(&self) -> Result<ModelSpec, Error> {
        match check_model_spec(self.kind, self.provider, &self.spec) {
            Ok((_, settings)) => Ok(settings),
            Err(problems) => Err(invalid(&self.name, &problems)),
        }
    }

    /// Returns the secret that is sent to the server.
    pub fn secret(&self, settings: &ModelSpec) -> Option<SecretRef> {
        secret_of(&self.name, settings)
    }

    /// Returns true if `role` may use the model.
    pub fn may_use(&self, role: pg_sys::Oid) -> bool {
        let holds = |user: &pg_sys::Oid| *user == PUBLIC || roles::may_act_for(role, *user);
        roles::may_act_for(role, self.owner.id) || self.users.iter().any(holds)
    }

    /// Returns true if `role` owns the model, or it was granted to it. What a superuser may do
    /// besides does not count.
    pub fn was_granted_to(&self, role: pg_sys::Oid) -> bool {
        let holds = |user: &pg_sys::Oid| *user == PUBLIC || roles::is_granted(role, *user);
        roles::is_granted(role, self.owner.id) || self.users.iter().any(holds)
    }
}

/// Returns the error for invalid settings.
pub fn invalid(name: &str, problems: &[rag_definition::FieldProblem]) -> Error {
    Error::invalid_spec(&format!("model \"{name}\""), problems)
}

/// Returns the secret that the settings of a model name. It is in the namespace of the model.
pub fn secret_of(name: &str, settings: &ModelSpec) -> Option<SecretRef> {
    let key = settings.api_key.as_ref()?;
    Some(key.clone().within(split(name).0))
}

/// Returns the model of a name, of the registry or built in.
pub fn find(name: &str) -> Result<Option<Model>, Error> {
    if name == LATE {
        return Model::late().map(Some);
    }
    let found = as_owner(|owner| {
        owner.query(
            &format!("SELECT {COLUMNS} FROM rag_internal.model m WHERE m.name = $1"),
            &[name.into()],
            |row| Model::read(&row),
        )
    })?;
    Ok(found.into_iter().next())
}

pub fn all() -> Result<Vec<Model>, Error> {
    as_owner(|owner| {
        owner.query(
            &format!("SELECT {COLUMNS} FROM rag_internal.model m ORDER BY m.name"),
            &[],
            |row| Model::read(&row),
        )
    })
}

/// Returns a model, and locks it against changes until the transaction ends.
pub fn lock(owner: &OwnerRights, name: &str) -> Result<Option<Model>, Error> {
    let found = owner.execute_returning(
        &format!("SELECT {COLUMNS} FROM rag_internal.model m WHERE m.name = $1 FOR UPDATE"),
        &[name.into()],
        |row| Model::read(&row),
    )?;
    Ok(found.into_iter().next())
}

/// Locks a model against being dropped until the transaction ends, if it exists.
pub fn lock_shared(owner: &OwnerRights, name: &str) -> Result<(), Error> {
    owner.execute(
        "SELECT FROM rag_internal.model WHERE name = $1 FOR SHARE",
        &[name.into()],
    )?;
    Ok(())
}

/// The collections whose model has the name $1.
const USERS: &str = "FROM rag_internal.collection c
         LEFT JOIN rag_internal.retriever r ON r.name = c.retriever
    WHERE coalesce(c.embedding_model, r.model) = $1";

/// Returns the collections that name a model, themselves or by their retriever, or that wait for a
/// rebuild with it.
pub fn collections_with(name: &str) -> Result<Vec<String>, Error> {
    let waiting = "c.wanted ->> 'embedding_model' = $1";
    names(
        &format!("SELECT c.name {USERS} OR {waiting} ORDER BY 1"),
        name,
    )
}

/// Returns those of them that have embeddings, or had.
pub fn filled_collections_with(name: &str) -> Result<Vec<String>, Error> {
    let filled = format!("SELECT c.name {USERS} AND c.model IS NOT NULL ORDER BY 1");
    names(&filled, name)
}

/// Returns the retrievers that name a model.
pub fn retrievers_with(name: &str) -> Result<Vec<String>, Error> {
    let sql = "SELECT r.name FROM rag_internal.retriever r
               WHERE r.model = $1 ORDER BY 1";
    names(sql, name)
}

/// The caller holds a lock that came after the statement of the user.
fn names(sql: &str, model: &str) -> Result<Vec<String>, Error> {
    as_owner(|owner| owner.execute_returning(sql, &[model.into()], |row| row.required("name")))
}

/// Returns a model as the current transaction has left it.
pub fn find_now(owner: &OwnerRights, name: &str) -> Result<Option<Model>, Error> {
    let found = owner.execute_returning(
        &format!("SELECT {COLUMNS} FROM rag_internal.model m WHERE m.name = $1"),
        &[name.into()],
        |row| Model::read(&row),
    )?;
    Ok(found.into_iter().next())
}

/// Stores what is known of an embedding model, if that is not stored yet.
pub fn note(
    owner: &OwnerRights,
    name: &str,
    fingerprint: Option<&str>,
    dimensions: Option<usize>,
) -> Result<(), Error> {
    let dimensions = dimensions.and_then(|n| i32::try_from(n).ok());
    owner.execute(
        "UPDATE rag_internal.model SET fingerprint = $2, dimensions = $3
         WHERE name = $1 AND (fingerprint, dimensions) IS DISTINCT FROM ($2, $3)",
        &[name.into(), fingerprint.into(), dimensions.into()],
    )?;
    Ok(())
}

/// What is stored of a model besides its name, kind and provider.
pub struct ModelRow<'a> {
    pub spec: &'a Value,
    pub secret: Option<&'a SecretRef>,
    pub owner: &'a Owner,
}

impl ModelRow<'_> {
    fn parameters(&self) -> [DatumWithOid<'_>; 5] {
        [
            JsonB(self.spec.clone()).into(),
            self.secret.map(|secret| secret.name.as_str()).into(),
            self.secret.and_then(|secret| secret.key.as_deref()).into(),
            self.owner.name.as_str().into(),
            self.owner.id.into(),
        ]
    }
}

/// Creates a model. Returns false if one of the name exists.
pub fn create(
    owner: &OwnerRights,
    name: &str,
    kind: ModelKind,
    provider: Provider,
    row: &ModelRow<'_>,
) -> Result<bool, Error> {
    let mut parameters: Vec<DatumWithOid<'_>> =
        vec![name.into(), kind.name().into(), provider.name().into()];
    parameters.extend(row.parameters());
    let created = {
        lock_secret(row)?;
        owner.execute(
            "INSERT INTO rag_internal.model (name, kind, provider, spec, credentials,
                credentials_key,
                                    owner, owner_id)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT DO NOTHING",
            &parameters,
        )
    }?;
    Ok(created > 0)
}

/// Replaces settings and owner of a model.
pub fn update(owner: &OwnerRights, name: &str, row: &ModelRow<'_>) -> Result<(), Error> {
    let mut parameters: Vec<DatumWithOid<'_>> = vec![name.into()];
    parameters.extend(row.parameters());
    {
        lock_secret(row)?;
        owner.execute(
            "UPDATE rag_internal.model
             SET spec = $2, credentials = $3, credentials_key = $4, owner = $5, owner_id = $6,
                 fingerprint = NULL, dimensions = NULL, updated_at = now()
             WHERE name = $1",
            &parameters,
        )
    }?;
    Ok(())
}

/// Prevents the secret from being dropped until the transaction ends.
fn lock_secret(row: &ModelRow<'_>) -> Result<(), Error> {
    match row.secret {
        Some(secret) => secrets::lock(&secret.name).map(|_| ()),
        None => Ok(()),
    }
}

/// Deletes a model and its grants.
pub fn drop(owner: &OwnerRights, name: &str) -> Result<(), Error> {
    owner.execute(
        "DELETE FROM rag_internal.model_grant WHERE model = $1",
        &[name.into()],
    )?;
    owner.execute(
        "DELETE FROM rag_internal.model WHERE name = $1",
        &[name.into()],
    )?;
    Ok(())
}

/// Allows a role to use a model. Does nothing if it is allowed already.
pub fn grant(owner: &OwnerRights, name: &str, to: &Owner) -> Result<(), Error> {
    {
        forget_dropped_roles(owner, name)?;
        owner.execute(
            // pgrx passes InvalidOid as NULL
            "INSERT INTO rag_internal.model_grant (model, role, role_id)
             VALUES ($1, $2, coalesce($3, 0::oid))
             ON CONFLICT (model, role_id) DO UPDATE SET role = excluded.role",
            &[name.into(), to.name.as_str().into(), to.id.into()],
        )
    }?;
    Ok(())
}

/// Does nothing if the role was not allowed to use the model.
pub fn revoke(owner: &OwnerRights, name: &str, from: &Owner) -> Result<(), Error> {
    {
        forget_dropped_roles(owner, name)?;
        owner.execute(
            "DELETE FROM rag_internal.model_grant WHERE model = $1
                AND role_id = coalesce($2, 0::oid)",
            &[name.into(), from.id.into()],
        )
    }?;
    Ok(())
}

/// Deletes the grants to dropped roles. They have no effect.
fn forget_dropped_roles(owner: &OwnerRights, name: &str) -> Result<usize, Error> {
    owner.execute(
        "DELETE FROM rag_internal.model_grant g
         WHERE g.model = $1 AND g.role_id IS DISTINCT FROM 0
             AND NOT EXISTS (SELECT FROM pg_roles r WHERE r.oid = g.role_id)",
        &[name.into()],
    )
}
