//! The check of a server's host key.

use std::sync::{Arc, Mutex, PoisonError};

use rag_definition::source::HostKey;
use rag_protocol::{EngineError, ErrorKind};
use russh::{
    Channel, Error, Preferred,
    client::{ChannelOpenHandle, Handler, Msg, Session},
    keys::{Algorithm, HashAlg, PublicKey, PublicKeyOrCertificate},
};

/// Reads the keys of a source.
///
/// # Errors
/// The library does not know one of them.
pub fn accepted(keys: &[HostKey]) -> Result<Vec<PublicKey>, EngineError> {
    let read = keys.iter().map(|key| PublicKey::from_openssh(key.as_str()));
    read.collect::<Result<_, _>>().map_err(|error| {
        EngineError::new(
            ErrorKind::InvalidRequest,
            "spec.hostKeys: has a key that is not valid",
        )
        .detail(error.to_string())
    })
}

/// Returns the algorithms that a server may prove itself with: of the accepted keys, so that it
/// does not present another of its keys. SHA-1 is not among them.
pub fn algorithms(accepted: &[PublicKey]) -> Vec<Algorithm> {
    let all = Preferred::DEFAULT.key;
    let is_accepted = |algorithm: &Algorithm| {
        accepted.is_empty()
            || accepted
                .iter()
                .any(|key| match (key.algorithm(), algorithm) {
                    (Algorithm::Rsa { .. }, Algorithm::Rsa { .. }) => true,
                    (own, algorithm) => own == *algorithm,
                })
    };
    let safe = |algorithm: &&Algorithm| !matches!(algorithm, Algorithm::Rsa { hash: None });
    let wanted = all
        .iter()
        .filter(safe)
        .filter(|algorithm| is_accepted(algorithm));
    wanted.cloned().collect()
}

/// The key that a server has presented.
pub type Presented = Arc<Mutex<Option<PublicKey>>>;

/// Accepts only a server with one of the keys, and no channel that it opens.
pub struct HostCheck {
    pub accepted: Vec<PublicKey>,
    pub presented: Presented,
}

impl Handler for HostCheck {
    type Error = Error;

    async fn check_server_key(&mut self, key: &PublicKeyOrCertificate) -> Result<bool, Error> {
        let PublicKeyOrCertificate::PublicKey { key, .. } = key else {
            return Ok(false);
        };
        let is_accepted = self
            .accepted
            .iter()
            .any(|own| own.key_data() == key.key_data());
        *self
            .presented
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = Some(key.clone());
        Ok(is_accepted)
    }

    // a channel is refused where nothing is done with it

    async fn server_channel_open_forwarded_tcpip(
        &mut self,
        _: Channel<Msg>,
        _: &str,
        _: u32,
        _: &str,
        _: u32,
        _: ChannelOpenHandle,
        _: &mut Session,
    ) -> Result<(), Error> {
        Ok(())
    }

    async fn server_channel_open_forwarded_streamlocal(
        &mut self,
        _: Channel<Msg>,
        _: &str,
        _: ChannelOpenHandle,
        _: &mut Session,
    ) -> Result<(), Error> {
        Ok(())
    }

    async fn server_channel_open_agent_forward(
        &mut self,
        _: Channel<Msg>,
        _: ChannelOpenHandle,
        _: &mut Session,
    ) -> Result<(), Error> {
        Ok(())
    }

    async fn server_channel_open_session(
        &mut self,
        _: Channel<Msg>,
        _: ChannelOpenHandle,
        _: &mut Session,
    ) -> Result<(), Error> {
        Ok(())
    }

    async fn server_channel_open_direct_tcpip(
        &mut self,
        _: Channel<Msg>,
        _: &str,
        _: u32,
        _: &str,
        _: u32,
        _: ChannelOpenHandle,
        _: &mut Session,
    ) -> Result<(), Error> {
        Ok(())
    }

    async fn server_channel_open_direct_streamlocal(
        &mut self,
        _: Channel<Msg>,
        _: &str,
        _: ChannelOpenHandle,
        _: &mut Session,
    ) -> Result<(), Error> {
        Ok(())
    }

    async fn server_channel_open_x11(
        &mut self,
        _: Channel<Msg>,
        _: &str,
        _: u32,
        _: ChannelOpenHandle,
        _: &mut Session,
    ) -> Result<(), Error> {
        Ok(())
    }
}

/// Returns the error of a server whose key is not among those of the source.
pub fn refused(named: &str, key: &PublicKey, are_known: bool) -> EngineError {
    let shown = PublicKey::from(key.key_data().clone())
        .to_openssh()
        .unwrap_or_default();
    let fingerprint = key.fingerprint(HashAlg::Sha256);
    let (message, hint) = if are_known {
        (
            format!("the server of {named} has another host key than those in \"hostKeys\""),
            "Someone may be pretending to be the server. If its operator has changed the key and \
             publishes this fingerprint, replace the key in \"hostKeys\" of the source's spec.",
        )
    } else {
        (
            format!("the host key of the server of {named} is not known"),
            "Compare the fingerprint with the one that the server's operator publishes. If they \
             are equal, add the key to the source's spec:",
        )
    };
    EngineError::new(ErrorKind::SourceUnavailable, message)
        .detail(format!("Its fingerprint is {fingerprint}."))
        .hint(format!("{hint} \"hostKeys\": [\"{shown}\"]"))
}
