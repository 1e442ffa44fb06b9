//! The rankings of the current statement. Each part of it that asks for a query gets the same.

use std::{cell::RefCell, rc::Rc};

use pgrx::pg_sys;

use super::ranking::{Purpose, Ranking};
use crate::pg::{
    roles,
    transaction::{StatementStamp, statement_stamp},
};

/// Maximum number of rankings that a statement remembers: more than the collections that a search
/// may name.
const MAX_RANKINGS: usize = 256;

/// A query of the current statement.
#[derive(PartialEq, Eq)]
struct RankingKey {
    /// Another role may lack the privilege.
    role: pg_sys::Oid,
    purpose: Purpose,
    index: pg_sys::Oid,
    text: Vec<u8>,
}

/// The rankings of a statement.
struct StatementRankings {
    stamp: Option<StatementStamp>,
    /// The latest is the last.
    rankings: Vec<(RankingKey, Rc<Ranking>)>,
}

thread_local! {
    static STATEMENT: RefCell<StatementRankings> = const {
        RefCell::new(StatementRankings {
            stamp: None,
            rankings: vec![],
        })
    };
}

/// Returns the ranking that the current statement has of a query.
pub fn remembered(purpose: Purpose, index: pg_sys::Oid, text: &[u8]) -> Option<Rc<Ranking>> {
    let (now, role) = (statement_stamp(), roles::current());
    STATEMENT.with_borrow_mut(|StatementRankings { stamp, rankings }| {
        if now.is_none() || *stamp != now {
            *stamp = now;
            rankings.clear();
        }
        let is_asked = |(key, _): &&(RankingKey, _)| {
            key.index == index && key.text == text && key.role == role && key.purpose == purpose
        };
        rankings
            .iter()
            .rev()
            .find(is_asked)
            .map(|(_, known)| Rc::clone(known))
    })
}

/// Keeps a ranking for the current statement. [`remembered`] was asked for it before.
pub fn remember(
    purpose: Purpose,
    index: pg_sys::Oid,
    text: &[u8],
    ranking: Ranking,
) -> Rc<Ranking> {
    let ranking = Rc::new(ranking);
    keep(purpose, index, text, &ranking);
    ranking
}

/// Keeps the ranking of several indexes for the current statement.
pub fn remember_for(purpose: Purpose, indexes: &[pg_sys::Oid], text: &[u8], ranking: Rc<Ranking>) {
    for index in indexes {
        // what is known of an earlier statement is forgotten, and of this one is replaced
        remembered(purpose, *index, text);
        keep(purpose, *index, text, &ranking);
    }
}

fn keep(purpose: Purpose, index: pg_sys::Oid, text: &[u8], ranking: &Rc<Ranking>) {
    STATEMENT.with_borrow_mut(|StatementRankings { rankings, .. }| {
        if rankings.len() == MAX_RANKINGS {
            rankings.remove(0);
        }
        let key = RankingKey {
            role: roles::current(),
            purpose,
            index,
            text: text.to_vec(),
        };
        rankings.push((key, Rc::clone(ranking)));
    });
}
