//! One request to a server, by a process `rag-engine store`.

use std::time::Duration;

use pgrx::pg_sys;
use rag_definition::{
    SecretRef,
    name::split,
    retriever::{ServerKind, StorageDefinition},
};
use rag_protocol::{
    frame,
    storage::{StorageCall, StorageCredentials, StorageEvent, StorageRequest},
};
use zeroize::{Zeroize, Zeroizing};

use super::retriever_of;
use crate::{
    catalog::{
        collections::Collection,
        retrievers::{self, Retriever},
    },
    engine::request::{EngineRequest, EngineTask, REPEAT},
    error::Error,
    secrets, settings,
    storage::outbox::removals::Removal,
};

/// The engine reports its own timeout. After this time more it is killed.
const KILL_DELAY: Duration = Duration::from_secs(5);

/// A server, as a retriever names it.
pub struct Target {
    retriever: String,
    kind: ServerKind,
    url: String,
    /// References to user name, password and API key.
    secrets: [Option<SecretRef>; 3],
    /// The role whose rights count for the secrets.
    owner: pg_sys::Oid,
}

impl Target {
    /// # Errors
    /// The retriever does not name a server.
    pub fn of(retriever: &Retriever) -> Result<Self, Error> {
        let storage = retriever.definition.storage();
        Self::new(&retriever.name, storage, retriever.owner.id)
    }

    /// # Errors
    /// See [`Target::of`].
    pub fn of_collection(collection: &Collection) -> Result<Self, Error> {
        Self::of(&retriever_of(collection)?)
    }

    /// # Errors
    /// See [`Target::of`].
    pub fn of_removal(removal: &Removal) -> Result<Self, Error> {
        let definition = retrievers::definition(&removal.retriever, &removal.spec)?;
        Self::new(&removal.retriever, definition.storage(), removal.owner)
    }

    fn new(
        retriever: &str,
        storage: &StorageDefinition,
        owner: pg_sys::Oid,
    ) -> Result<Self, Error> {
        let (Some(kind), Some(url)) = (storage.server(), storage.url()) else {
            return Err(Error::internal("the storage is on no other server"));
        };
        let namespace = split(retriever).0;
        Ok(Self {
            retriever: retriever.to_owned(),
            kind,
            url: url.to_owned(),
            secrets: storage
                .secrets()
                .map(|secret| secret.map(|secret| secret.within(namespace))),
            owner,
        })
    }

    pub fn url(&self) -> &str {
        self.url.trim_end_matches('/')
    }

    /// Returns the values of the secrets, by the rights of the retriever's owner.
    fn credentials(&self) -> Result<StorageCredentials, Error> {
        let value = |secret: &Option<SecretRef>| {
            let value = secret
                .as_ref()
                .map(|named| secrets::value_for(named, self.owner));
            value.transpose()
        };
        let [username, password, api_key] = &self.secrets;
        Ok(StorageCredentials {
            username: value(username)?,
            password: value(password)?,
            api_key: value(api_key)?,
        })
    }
}

/// A request in progress.
pub struct StoreCall(EngineRequest<StorageEvent>);

impl StoreCall {
    /// # Errors
    /// A secret is unavailable, or the engine cannot be started.
    pub fn begin(
        target: &Target,
        request: StorageRequest,
        timeout: Duration,
    ) -> Result<Self, Error> {
        let mut call = StorageCall {
            retriever: target.retriever.clone(),
            server: target.kind,
            url: target.url().to_owned(),
            credentials: target.credentials()?,
            network: settings::network(),
            timeout_ms: u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX),
            request,
        };
        let input = frame::encode(&call, &[]).map(Zeroizing::new);
        let StorageCredentials {
            username,
            password,
            api_key,
        } = &mut call.credentials;
        for secret in [username, password, api_key].into_iter().flatten() {
            secret.zeroize();
        }
        let what = format!("(storage of retriever \"{}\")", target.retriever);
        let late = Error::engine_unavailable(format!("rag-engine did not answer in time {what}"));
        EngineRequest::begin(EngineTask {
            command: "store",
            options: vec![],
            input: input?,
            label: what.clone(),
            activity: what,
            hint: REPEAT,
            limit: Some((timeout + KILL_DELAY, late)),
        })
        .map(Self)
    }

    /// Returns the answer, if it has arrived.
    ///
    /// # Errors
    /// The server or the engine has failed.
    pub fn poll(&mut self) -> Result<Option<StorageEvent>, Error> {
        let event = self.0.poll()?;
        event.map(|(event, _)| answered(event)).transpose()
    }

    /// Waits for the answer.
    ///
    /// # Errors
    /// See [`StoreCall::poll`].
    pub fn wait(&mut self) -> Result<StorageEvent, Error> {
        answered(self.0.next()?.0)
    }
}

fn answered(event: StorageEvent) -> Result<StorageEvent, Error> {
    match event {
        StorageEvent::Failed { error } => Err(error.into()),
        other => Ok(other),
    }
}
