//! Causes of errors, and the table of what follows from them.

use std::time::Duration;

use pgrx::PgSqlErrorCode as Code;

/// Why something failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// An argument, or another value that was given, is invalid or not supported.
    Request,
    /// The definition of a source, model or retriever is invalid. Its statement may have a
    /// credential in the wrong place.
    Definition,
    /// A document, or another text, is refused. Others may be accepted.
    Document,
    /// What is named does not exist, or is of another kind: a role, a secret, a collection; the
    /// folder, repository or server that a source reads.
    Object,
    /// A table or a schema does not exist.
    Table,
    /// A column does not exist.
    Column,
    /// The role has no right to do it.
    Right,
    /// Something is not in the state that is needed.
    State,
    /// The embeddings of the collection are from another model than the present one.
    OtherModel,
    /// The installation or a setting is wrong: the key file, the folder of a model, the sandbox.
    Setup,
    /// The engine, or the server that it asks, cannot answer at all: it is not installed, does not
    /// start, has ended, or is out of reach.
    Engine,
    /// A server refuses the credentials, or what it answers is invalid.
    Server,
    /// A server limits the rate of requests, and asks to wait. Zero if it does not say how long.
    Throttled(Duration),
    /// The calls of a model are used up until this time has passed.
    Budget(Duration),
    /// A source or a collection may not store more.
    Quota,
    /// Another transaction has a lock.
    Locked,
    /// Another session uses the object.
    InUse,
    /// Another transaction has changed what this one has read.
    Stale,
    /// A cancel, or a time limit of the statement.
    Cancelled,
    /// The process has to end.
    Shutdown,
    /// PostgreSQL lacks memory, disk or connections, or may not write.
    Resources,
    /// Data on disk is corrupted: a checksum, a page, or a link of an index.
    Corrupt,
    /// Anything else.
    Internal,
}

/// Causes by the first characters of an SQLSTATE. An SQLSTATE comes before its class.
const CAUSES: &[(&[u8], Cause)] = &[
    (b"08P01", Cause::Server),
    (b"08", Cause::Engine),
    (b"0A", Cause::Request),
    (b"22", Cause::Request),
    (b"25", Cause::Resources),
    (b"28", Cause::Server),
    (b"3F", Cause::Table),
    (b"40P01", Cause::Locked), // a deadlock
    (b"40", Cause::Stale),
    (b"42501", Cause::Right),
    (b"42703", Cause::Column),
    (b"42P01", Cause::Table),
    (b"42", Cause::Object),
    (b"53400", Cause::Engine), // no background worker is free
    (b"53", Cause::Resources),
    (b"54", Cause::Request),
    (b"55006", Cause::InUse),
    (b"55P03", Cause::Locked),
    (b"55", Cause::State),
    (b"57014", Cause::Cancelled),
    (b"57P01", Cause::Shutdown),
    (b"57P02", Cause::Shutdown),
    (b"57", Cause::Resources),
    (b"58P01", Cause::Engine), // rag-engine or a model does not exist
    (b"58", Cause::Resources),
    (b"F0", Cause::Setup),
    (b"XX001", Cause::Corrupt),
    (b"XX002", Cause::Corrupt),
];

/// What follows from a cause.
struct Consequences {
    /// A run that fails is tried again.
    is_retried: bool,
    /// It ends a run. Otherwise it is about a single document.
    ends_run: bool,
    /// Why a run failed, as the reason of a condition.
    reason: &'static str,
    /// The log shows it even if the statement has a secret: the message quotes no statement.
    is_shown: bool,
}

const fn row(
    is_retried: bool,
    ends_run: bool,
    reason: &'static str,
    is_shown: bool,
) -> Consequences {
    Consequences {
        is_retried,
        ends_run,
        reason,
        is_shown,
    }
}

impl Cause {
    const fn consequences(self) -> Consequences {
        match self {
            // retried, ends run, reason, shown in the log
            Self::Request => row(true, false, "RunFailed", false),
            Self::Definition => row(true, false, "RunFailed", false),
            Self::Document => row(true, false, "RunFailed", false),
            Self::Object => row(true, false, "NotReady", false),
            Self::Table => row(true, false, "NotReady", false),
            Self::Column => row(true, false, "NotReady", false),
            Self::Right => row(true, false, "NotReady", true),
            Self::State => row(true, true, "RunFailed", false),
            Self::OtherModel => row(true, true, "RunFailed", false),
            Self::Setup => row(true, false, "RunFailed", false),
            Self::Engine => row(true, true, "RunFailed", true),
            Self::Server => row(true, false, "RunFailed", true),
            Self::Throttled(_) => row(true, true, "Throttled", true),
            Self::Budget(_) => row(true, true, "BudgetExhausted", true),
            Self::Quota => row(false, true, "QuotaExceeded", true),
            Self::Locked => row(true, true, "RunFailed", true),
            Self::InUse => row(true, true, "RunFailed", false),
            Self::Stale => row(true, true, "RunFailed", true),
            Self::Cancelled => row(true, true, "Timeout", true),
            Self::Shutdown => row(true, true, "Interrupted", true),
            Self::Resources => row(true, true, "RunFailed", true),
            Self::Corrupt => row(true, false, "RunFailed", false),
            Self::Internal => row(true, false, "RunFailed", false),
        }
    }

    /// Returns the cause of an SQLSTATE.
    pub fn of_state(code: Code) -> Self {
        let state = state_bytes(code);
        let found = CAUSES.iter().find(|(begin, _)| state.starts_with(begin));
        found.map_or(Self::Internal, |(_, cause)| *cause)
    }

    /// Returns true if a run that fails with it is tried again: another attempt may succeed.
    pub const fn is_retried(self) -> bool {
        self.consequences().is_retried
    }

    /// Returns true if it does not concern a single document. Either it would meet the next
    /// document, too, or another transaction caused it, as a deadlock does.
    pub const fn ends_run(self) -> bool {
        self.consequences().ends_run
    }

    /// Returns why a run failed, as the reason of a condition.
    pub const fn reason(self) -> &'static str {
        self.consequences().reason
    }

    /// Returns true if it lies in what was given: an argument, a definition, a document.
    pub const fn is_in_input(self) -> bool {
        matches!(self, Self::Request | Self::Definition | Self::Document)
    }

    /// Returns true if it lies in what a definition names: a role, a secret, a table, rights, or a
    /// folder, repository or server that no longer exists.
    pub const fn is_in_named(self) -> bool {
        matches!(
            self,
            Self::Object | Self::Table | Self::Column | Self::Right
        )
    }

    /// Returns true if the engine, or the server behind it, cannot answer now.
    pub const fn is_unavailable(self) -> bool {
        matches!(self, Self::Engine | Self::Throttled(_) | Self::Budget(_))
    }

    /// Returns true if the statement or the session has to end.
    pub const fn ends_statement(self) -> bool {
        matches!(self, Self::Cancelled | Self::Shutdown)
    }
}

/// Returns true if the log shows an error with this SQLSTATE even if its statement has a secret.
pub fn is_shown_in_log(code: Code) -> bool {
    // a function that does not exist is named with the types of its arguments, not their values
    code == Code::ERRCODE_UNDEFINED_FUNCTION || Cause::of_state(code).consequences().is_shown
}

/// Returns an SQLSTATE as its five characters.
pub fn sqlstate(code: Code) -> String {
    state_bytes(code).map(char::from).iter().collect()
}

fn state_bytes(code: Code) -> [u8; 5] {
    let mut value = code as i32;
    [(); 5].map(|()| {
        let c = (value & 0x3f) as u8 + b'0';
        value >>= 6;
        c
    })
}

/// Returns the SQLSTATE with these characters.
pub fn code_of(state: &str) -> Code {
    let bits = |code, b: u8| (code << 6) + (i32::from(b.saturating_sub(b'0')) & 0x3f);
    state.bytes().rev().fold(0, bits).into()
}
