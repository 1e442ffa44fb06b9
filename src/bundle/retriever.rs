//! The retriever of a bundle, which may name a server.

use pgrx::PgSqlErrorCode;
use rag_definition::name::split;
use rag_manifest::Manifest;

use crate::{catalog::retrievers, collection::retriever, error::Error};

/// Creates the retriever of the collection if it does not exist. The caller may not know that
/// vectors, labels and queries then go to a server that the bundle names, perhaps with a secret of
/// the caller.
pub fn create(name: &str, manifests: &[Manifest], may_connect: bool) -> Result<(), Error> {
    if retrievers::find(name)?.is_some() {
        return Ok(());
    }
    for manifest in manifests {
        match manifest {
            Manifest::Retriever(found) if manifest.name() == name => {
                let storage = found.definition.storage();
                if let Some(url) = storage.url() {
                    let secret = storage.secrets().into_iter().flatten().next();
                    let server = Server {
                        retriever: name,
                        url,
                        secret: secret.map(|secret| secret.within(split(name).0).name),
                    };
                    if !may_connect {
                        return Err(server.refusal());
                    }
                    server.tell();
                }
                retriever::apply(found)?;
            }
            _ => {}
        }
    }
    Ok(())
}

/// The server that a retriever of a bundle names.
struct Server<'a> {
    retriever: &'a str,
    url: &'a str,
    secret: Option<String>,
}

impl Server<'_> {
    fn refusal(&self) -> Error {
        let Self { retriever, url, .. } = self;
        let secret = match &self.secret {
            Some(secret) => format!(" with secret \"{secret}\""),
            None => String::new(),
        };
        Error::new(
            PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
            format!("retriever \"{retriever}\" of the bundle does not exist and names a server"),
        )
        .detail(format!(
            "Vectors, labels and queries of the collection would be sent to {url}{secret}."
        ))
        .hint("Create the retriever, or import the bundle with with_sources => true.")
    }

    fn tell(&self) {
        let Self { retriever, url, .. } = self;
        pgrx::notice!(
            "retriever \"{retriever}\" of the bundle sends vectors, labels and queries to {url}"
        );
    }
}
