//! Hooks of the server: before commands, after names are resolved, before something is logged, and
//! at each start.
//!
//! Each hook calls the one that was installed before it. The callbacks are safe functions of other
//! rooms. They get views of the server's structures that live as long as the call.
#![allow(unsafe_code)] // callbacks of the server

use std::{
    ffi::{CStr, c_char, c_int, c_void},
    sync::OnceLock,
};

use pgrx::{PgList, is_a, pg_guard, pg_sys};

use super::{compat, lookup, memory, process, transaction};

// -- commands
//
// pgrx guards neither of the next two hooks, and they do not call the next hook through pgrx, which
// would take every ERROR of the server apart and raise it again without its position in the
// statement, its context and the names of its objects. An ERROR leaps over these frames, which have
// nothing to drop.

/// A utility command that is about to run.
#[derive(Debug, Clone, Copy)]
pub enum Command<'a> {
    DropDatabase(&'a CStr),
    RenameDatabase(&'a CStr),
    AlterDatabase {
        name: &'a CStr,
        moves_tablespace: bool,
    },
    /// CREATE DATABASE with this template.
    CopyDatabase(&'a CStr),
    /// DROP EXTENSION of this extension, by a session that may do so.
    DropExtension,
    CommitPrepared,
}

/// An object that has been created or is being dropped, or an extension that was updated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ObjectChange {
    Extension,
    DatabaseCreated,
    DatabaseDropped(u32),
}

static BEFORE_COMMAND: OnceLock<fn(Command<'_>)> = OnceLock::new();
static NEXT_UTILITY: OnceLock<pg_sys::ProcessUtility_hook_type> = OnceLock::new();
static ON_OBJECT: OnceLock<fn(ObjectChange)> = OnceLock::new();
static NEXT_OBJECT_ACCESS: OnceLock<pg_sys::object_access_hook_type> = OnceLock::new();

/// Registers callbacks for commands that begin, and for objects that are created or dropped. Called
/// while the server loads its preloaded libraries.
pub fn watch_commands(before_command: fn(Command<'_>), on_object: fn(ObjectChange)) {
    if BEFORE_COMMAND.set(before_command).is_err() || ON_OBJECT.set(on_object).is_err() {
        return;
    }
    // SAFETY: variables of the process, which has one thread.
    unsafe {
        if NEXT_UTILITY.set(pg_sys::ProcessUtility_hook).is_ok() {
            pg_sys::ProcessUtility_hook = Some(utility);
        }
        if NEXT_OBJECT_ACCESS.set(pg_sys::object_access_hook).is_ok() {
            pg_sys::object_access_hook = Some(object_access);
        }
    }
}

unsafe extern "C-unwind" fn object_access(
    access: pg_sys::ObjectAccessType::Type,
    class: pg_sys::Oid,
    object: pg_sys::Oid,
    part: c_int,
    argument: *mut c_void,
) {
    // SAFETY: as the server calls it.
    unsafe {
        if let Some(Some(next)) = NEXT_OBJECT_ACCESS.get() {
            next(access, class, object, part, argument);
        }
        after_access(access, class, object);
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn after_access(
    access: pg_sys::ObjectAccessType::Type,
    class: pg_sys::Oid,
    object: pg_sys::Oid,
) {
    use pg_sys::ObjectAccessType::{OAT_DROP, OAT_POST_ALTER, OAT_POST_CREATE};
    let change = match (class, access) {
        (pg_sys::ExtensionRelationId, OAT_POST_CREATE | OAT_POST_ALTER | OAT_DROP) => {
            ObjectChange::Extension
        }
        (pg_sys::DatabaseRelationId, OAT_POST_CREATE) => ObjectChange::DatabaseCreated,
        (pg_sys::DatabaseRelationId, OAT_DROP) => ObjectChange::DatabaseDropped(object.to_u32()),
        _ => return,
    };
    if let Some(callback) = ON_OBJECT.get() {
        callback(change);
    }
}

#[allow(clippy::too_many_arguments)] // the server's
unsafe extern "C-unwind" fn utility(
    statement: *mut pg_sys::PlannedStmt,
    query: *const c_char,
    is_read_only: bool,
    context: pg_sys::ProcessUtilityContext::Type,
    params: pg_sys::ParamListInfo,
    env: *mut pg_sys::QueryEnvironment,
    dest: *mut pg_sys::DestReceiver,
    done: *mut pg_sys::QueryCompletion,
) {
    // SAFETY: as the server calls it.
    unsafe {
        before_command((*statement).utilityStmt);
        match NEXT_UTILITY.get().copied().flatten() {
            Some(next) => next(
                statement,
                query,
                is_read_only,
                context,
                params,
                env,
                dest,
                done,
            ),
            None => compat::standard_ProcessUtility(
                statement,
                query,
                is_read_only,
                context,
                params,
                env,
                dest,
                done,
            ),
        }
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn before_command(command: *mut pg_sys::Node) {
    // SAFETY: the node of the statement that is about to run.
    let command = unsafe { read_command(command) };
    if let (Some(command), Some(callback)) = (command, BEFORE_COMMAND.get()) {
        callback(command);
    }
}

/// # Safety
/// The node of a utility statement, which stays as long as `'a`.
unsafe fn read_command<'a>(command: *mut pg_sys::Node) -> Option<Command<'a>> {
    // SAFETY: a node has the type that its tag says; names are null or end with NUL.
    unsafe {
        let text = |name: *mut c_char| (!name.is_null()).then(|| CStr::from_ptr(name));
        if is_a(command, pg_sys::NodeTag::T_DropdbStmt) {
            text((*command.cast::<pg_sys::DropdbStmt>()).dbname).map(Command::DropDatabase)
        } else if is_a(command, pg_sys::NodeTag::T_RenameStmt) {
            let rename = command.cast::<pg_sys::RenameStmt>();
            if (*rename).renameType != pg_sys::ObjectType::OBJECT_DATABASE {
                return None;
            }
            text((*rename).subname).map(Command::RenameDatabase)
        } else if is_a(command, pg_sys::NodeTag::T_AlterDatabaseStmt) {
            let alter = command.cast::<pg_sys::AlterDatabaseStmt>();
            Some(Command::AlterDatabase {
                name: text((*alter).dbname)?,
                moves_tablespace: option((*alter).options, c"tablespace").is_some(),
            })
        } else if is_a(command, pg_sys::NodeTag::T_CreatedbStmt) {
            let options = (*command.cast::<pg_sys::CreatedbStmt>()).options;
            text(option(options, c"template")?).map(Command::CopyDatabase)
        } else if is_a(command, pg_sys::NodeTag::T_DropStmt) {
            drops_extension(command.cast()).then_some(Command::DropExtension)
        } else if is_a(command, pg_sys::NodeTag::T_TransactionStmt) {
            let kind = (*command.cast::<pg_sys::TransactionStmt>()).kind;
            (kind == pg_sys::TransactionStmtKind::TRANS_STMT_COMMIT_PREPARED)
                .then_some(Command::CommitPrepared)
        } else {
            None
        }
    }
}

/// Returns the text of one of a command's options, if it has one.
///
/// # Safety
/// The options of a statement.
unsafe fn option(options: *mut pg_sys::List, name: &CStr) -> Option<*mut c_char> {
    // SAFETY: a list of DefElem, as the grammar creates it.
    unsafe {
        let found = PgList::<pg_sys::DefElem>::from_pg(options)
            .iter_ptr()
            .find(|element| CStr::from_ptr((**element).defname) == name)?;
        (!(*found).arg.is_null()).then(|| pg_sys::defGetString(found))
    }
}

/// Returns true if a command drops this extension and the session may do that.
///
/// # Safety
/// A node of a statement.
unsafe fn drops_extension(drop: *mut pg_sys::DropStmt) -> bool {
    // SAFETY: a list of names, as the grammar creates it.
    let names_it = unsafe {
        (*drop).removeType == pg_sys::ObjectType::OBJECT_EXTENSION
            && transaction::is_active()
            && PgList::from_pg((*drop).objects)
                .iter_ptr()
                .any(|name| compat::name_text(name) == c"rag")
    };
    names_it && lookup::extension(c"rag").is_some_and(compat::owns_extension)
}

/// Returns CASCADE or RESTRICT for a command that drops the extension with the rights to do so.
///
/// # Safety
/// Null, or a node of a statement.
pub unsafe fn drop_behavior(command: *mut pg_sys::Node) -> Option<pg_sys::DropBehavior::Type> {
    // SAFETY: a node has the type that its tag says.
    unsafe {
        if command.is_null() {
            None
        } else if is_a(command, pg_sys::NodeTag::T_DropStmt) {
            let drop = command.cast::<pg_sys::DropStmt>();
            drops_extension(drop).then_some((*drop).behavior)
        } else if is_a(command, pg_sys::NodeTag::T_DropOwnedStmt) {
            let drop = command.cast::<pg_sys::DropOwnedStmt>();
            let owner = super::extension::extension_owner()?;
            let is_owners = PgList::<pg_sys::RoleSpec>::from_pg((*drop).roles)
                .iter_ptr()
                .any(|role| pg_sys::get_rolespec_oid(role, true) == owner);
            (is_owners && lookup::has_privileges_of(process::current_user(), owner))
                .then_some((*drop).behavior)
        } else {
            None
        }
    }
}

// -- analysed statements

/// A statement whose names Postgres has just resolved.
pub struct Statement<'a> {
    pub text: &'a CStr,
    query: *const pg_sys::Query,
}

impl Statement<'_> {
    /// Returns true if no other relation is in the FROM lists of the statement.
    pub fn reads_only(&self, relation: pg_sys::Oid) -> bool {
        // SAFETY: the query of the statement that is being analysed.
        unsafe { reads_only(self.query, relation) }
    }
}

/// # Safety
/// A query that has just been analysed.
unsafe fn reads_only(query: *const pg_sys::Query, relation: pg_sys::Oid) -> bool {
    // SAFETY: its list of range table entries.
    let entries = unsafe { PgList::<pg_sys::RangeTblEntry>::from_pg((*query).rtable) };
    entries.iter_ptr().all(|entry| {
        // SAFETY: the kind of an entry says which of its members are set.
        unsafe {
            match (*entry).rtekind {
                pg_sys::RTEKind::RTE_RELATION => (*entry).relid == relation,
                pg_sys::RTEKind::RTE_SUBQUERY => reads_only((*entry).subquery, relation),
                _ => true,
            }
        }
    })
}

static ON_ANALYSED: OnceLock<fn(&Statement<'_>)> = OnceLock::new();
static NEXT_ANALYSE: OnceLock<pg_sys::post_parse_analyze_hook_type> = OnceLock::new();

/// Registers a callback for each statement whose names are resolved. Called while the library is
/// loaded.
pub fn watch_statements(callback: fn(&Statement<'_>)) {
    // SAFETY: a variable of the process, set while the library is being loaded.
    unsafe {
        if ON_ANALYSED.set(callback).is_ok()
            && NEXT_ANALYSE.set(pg_sys::post_parse_analyze_hook).is_ok()
        {
            pg_sys::post_parse_analyze_hook = Some(analysed);
        }
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn analysed(
    state: *mut pg_sys::ParseState,
    query: *mut pg_sys::Query,
    jumble: *mut pg_sys::JumbleState,
) {
    // SAFETY: as the server calls it.
    unsafe {
        memory::keep_reserve(); // commands are not executed as queries are
        if let Some(Some(next)) = NEXT_ANALYSE.get() {
            next(state, query, jumble);
        }
        show_analysed(state, query);
    }
}

/// # Safety
/// State and query of a statement that Postgres has just analysed.
unsafe fn show_analysed(state: *mut pg_sys::ParseState, query: *mut pg_sys::Query) {
    // SAFETY: the text that was analysed ends with NUL.
    unsafe {
        let text = (*state).p_sourcetext;
        if let Some(callback) = ON_ANALYSED.get()
            && !text.is_null()
        {
            let text = CStr::from_ptr(text);
            callback(&Statement { text, query });
        }
    }
}

// -- the log

/// A text of a log entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogText {
    Message,
    Detail,
    /// The detail that only the log gets.
    DetailLog,
    Context,
    /// The text of a statement that the server or a function runs itself.
    InternalQuery,
}

/// An error or message that is about to be logged.
pub struct LogEntry<'a>(&'a mut pg_sys::ErrorData);

impl LogEntry<'_> {
    /// Returns the level, one of `pgrx::PgLogLevel`.
    pub fn level(&self) -> i32 {
        self.0.elevel
    }

    pub fn code(&self) -> i32 {
        self.0.sqlerrcode
    }

    /// Returns the name of the function that reported it.
    pub fn function(&self) -> Option<&CStr> {
        let name = self.0.funcname;
        // SAFETY: null, or a text of the reporter's.
        (!name.is_null()).then(|| unsafe { CStr::from_ptr(name) })
    }

    fn pointer(&self, text: LogText) -> *mut c_char {
        match text {
            LogText::Message => self.0.message,
            LogText::Detail => self.0.detail,
            LogText::DetailLog => self.0.detail_log,
            LogText::Context => self.0.context,
            LogText::InternalQuery => self.0.internalquery,
        }
    }

    pub fn text(&self, text: LogText) -> Option<&[u8]> {
        let text = self.pointer(text);
        // SAFETY: null, or a text of the entry's own that ends with NUL.
        (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_bytes())
    }

    /// Overwrites a text from `start` on with as much of `shown` as there is room for. It changes
    /// the text in place: an error that is being reported is no time to allocate memory.
    pub fn overwrite(&mut self, text: LogText, start: usize, shown: &CStr) {
        let pointer = self.pointer(text);
        let length = self.text(text).map_or(0, <[u8]>::len);
        let Some(room) = length.checked_sub(start).filter(|_| !pointer.is_null()) else {
            return;
        };
        let shown = shown.to_bytes();
        let count = shown.len().min(room);
        // SAFETY: the text belongs to the entry, and what is written ends where it did, or before.
        unsafe {
            std::ptr::copy_nonoverlapping(shown.as_ptr().cast(), pointer.add(start), count);
            *pointer.add(start + count) = 0;
        }
        if text == LogText::InternalQuery {
            self.0.internalpos = 0;
        }
    }

    /// Keeps the entry out of the server's log.
    pub fn keep_from_server(&mut self) {
        self.0.output_to_server = false;
    }

    /// Logs the entry without the text of the statement that caused it.
    pub fn hide_statement(&mut self) {
        self.0.hide_stmt = true;
    }

    /// Keeps a worker's end out of the log if it was asked to end: the server stops, the extension
    /// or its database is dropped, or the database accepts no connections any more. The postmaster
    /// logs the exit.
    pub fn keep_worker_end_quiet(&mut self) {
        use pgrx::PgSqlErrorCode::{
            ERRCODE_ADMIN_SHUTDOWN, ERRCODE_INVALID_CATALOG_NAME,
            ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
        };
        let code = self.code();
        let is_end = code == ERRCODE_ADMIN_SHUTDOWN as i32
            || process::is_connecting()
                && [
                    ERRCODE_INVALID_CATALOG_NAME as i32,
                    ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE as i32,
                ]
                .contains(&code);
        if is_end && process::is_rag_worker() && self.level() == pgrx::PgLogLevel::FATAL as i32 {
            self.keep_from_server();
        }
    }
}

static ON_LOG: OnceLock<fn(&mut LogEntry<'_>)> = OnceLock::new();
static NEXT_LOG: OnceLock<pg_sys::emit_log_hook_type> = OnceLock::new();

/// Registers a callback for everything that this process and its children log. Called while the
/// library is loaded.
pub fn watch_log(callback: fn(&mut LogEntry<'_>)) {
    // SAFETY: a variable of the process, set while the library is being loaded.
    unsafe {
        if ON_LOG.set(callback).is_ok() && NEXT_LOG.set(pg_sys::emit_log_hook).is_ok() {
            pg_sys::emit_log_hook = Some(on_log);
        }
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn on_log(error: *mut pg_sys::ErrorData) {
    // SAFETY: Postgres passes the error that it is about to log, whose texts are its own and can be
    // written to.
    unsafe {
        if let (Some(error), Some(callback)) = (error.as_mut(), ON_LOG.get()) {
            callback(&mut LogEntry(error));
        }
        if let Some(Some(next)) = NEXT_LOG.get() {
            next(error);
        }
    }
}

// -- start

static ON_START: OnceLock<fn()> = OnceLock::new();
static NEXT_START: OnceLock<pg_sys::shmem_startup_hook_type> = OnceLock::new();

/// Registers a callback for each start of the server, also after a crash: in the postmaster, before
/// it has children. Called while the server loads its preloaded libraries.
pub fn watch_starts(callback: fn()) {
    // SAFETY: a variable of the process, which has one thread.
    unsafe {
        if ON_START.set(callback).is_ok() && NEXT_START.set(pg_sys::shmem_startup_hook).is_ok() {
            pg_sys::shmem_startup_hook = Some(on_start);
        }
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn on_start() {
    // SAFETY: as Postgres calls this one.
    unsafe {
        if let Some(Some(next)) = NEXT_START.get() {
            next();
        }
    }
    if let Some(callback) = ON_START.get() {
        callback();
    }
}
