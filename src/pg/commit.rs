//! What is done once the present transaction has committed, by the process that has committed it:
//! lines of the log that say what is true from then on, and files that nothing names any more.
#![allow(unsafe_code)] // a transaction callback

use std::{cell::RefCell, ffi::c_void, sync::Once};

use pgrx::{pg_guard, pg_sys};

type Action = Box<dyn FnOnce()>;

thread_local! {
    /// Actions, with the subtransaction that each belongs to.
    static ACTIONS: RefCell<Vec<(pg_sys::TransactionId, Action)>> = const { RefCell::new(vec![]) };
}

/// Runs `action` once the present transaction has committed. It is dropped where the transaction,
/// or the subtransaction that it belongs to, is rolled back, or prepared for a commit by another
/// session.
///
/// The transaction cannot be undone any more when the action runs: it must neither fail nor use the
/// database.
pub fn at_commit(action: impl FnOnce() + 'static) {
    static REGISTER: Once = Once::new();
    // SAFETY: the callback stays valid as long as the library, which is never unloaded; callers are
    // in a transaction.
    let transaction = unsafe {
        REGISTER.call_once(|| pg_sys::RegisterXactCallback(Some(at_end), std::ptr::null_mut()));
        pg_sys::GetCurrentTransactionId()
    };
    ACTIONS.with_borrow_mut(|actions| actions.push((transaction, Box::new(action))));
}

#[pg_guard]
unsafe extern "C-unwind" fn at_end(event: pg_sys::XactEvent::Type, _argument: *mut c_void) {
    use pg_sys::XactEvent::{XACT_EVENT_ABORT, XACT_EVENT_COMMIT, XACT_EVENT_PREPARE};
    if !matches!(
        event,
        XACT_EVENT_COMMIT | XACT_EVENT_ABORT | XACT_EVENT_PREPARE
    ) {
        return;
    }
    for (transaction, action) in ACTIONS.take() {
        // SAFETY: looks at the session's own transaction state, which still knows the
        // subtransactions that were not rolled back.
        if event == XACT_EVENT_COMMIT
            && unsafe { pg_sys::TransactionIdIsCurrentTransactionId(transaction) }
        {
            action();
        }
    }
}
