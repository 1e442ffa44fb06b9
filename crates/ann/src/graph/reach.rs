//! Links nodes in that no path leads to.
//!
//! A node cannot be found if all its neighbours have better links than the one to it. This is rare,
//! but a row that is never found is an error for the user who looks for it. So each level is walked
//! from the entry point. A node that was not reached gets a link from the nearest node that was.

use super::{
    NONE, Node,
    insert::{Linker, Scratch},
    threads::Stop,
};
use crate::{
    memory::{OutOfMemory, push},
    visited::Visited,
};

/// Makes all nodes of a level reachable from the entry point, on one thread.
pub(super) fn connect(
    linker: &Linker<'_>,
    scratch: &mut Scratch,
    level: usize,
    duplicate_of: &[Node],
    stop: &Stop,
) -> Result<(), OutOfMemory> {
    let Some((entry, _)) = linker.entry() else {
        return Ok(());
    };
    let mut reached = Visited::new();
    reached.reserve(linker.nodes())?;
    walk(linker, level, entry, &mut reached, stop)?;
    for node in 0..linker.nodes() as Node {
        if linker.level(node) >= level
            && duplicate_of[node as usize] == NONE
            && !reached.contains(node)
        {
            link_in(linker, scratch, level, entry, node, &reached)?;
            walk(linker, level, node, &mut reached, stop)?;
        }
        if stop.is_wanted() {
            break;
        }
    }
    Ok(())
}

/// Marks the nodes that can be reached from a node.
fn walk(
    linker: &Linker<'_>,
    level: usize,
    from: Node,
    reached: &mut Visited,
    stop: &Stop,
) -> Result<(), OutOfMemory> {
    reached.insert(from)?;
    let mut todo = vec![from];
    while let Some(node) = todo.pop() {
        for id in linker.list(node, level).ids() {
            if reached.insert(id)? {
                push(&mut todo, id)?;
            }
        }
        if stop.is_wanted() {
            break;
        }
    }
    Ok(())
}

/// Adds a link to a node that cannot be reached.
fn link_in(
    linker: &Linker<'_>,
    scratch: &mut Scratch,
    level: usize,
    entry: Node,
    node: Node,
    reached: &Visited,
) -> Result<(), OutOfMemory> {
    linker.prepare(scratch, node);
    // Nodes found from reachable nodes are reachable themselves. The node's own neighbours are near
    // it.
    let mut neighbours = linker
        .list(node, level)
        .ids()
        .filter(|id| reached.contains(*id))
        .peekable();
    if neighbours.peek().is_some() {
        linker.begin_at(scratch, neighbours);
    } else {
        linker.begin_at(scratch, [entry].into_iter());
    }
    linker.search(scratch, node, level, linker.limit(level))?;
    let limit = linker.limit(level);
    let found = || {
        scratch
            .pool
            .as_slice()
            .iter()
            .map(|key| crate::pool::key_id(*key))
    };
    let with_room = found().find(|other| linker.list(*other, level).ids().count() < limit);
    if let Some(other) = with_room {
        linker.list(other, level).lock().push(node);
    } else if let Some(nearest) = found().next() {
        // The link goes between the nearest and the last of its neighbours. A node to which only
        // the dropped last link led was not reached either, so nothing is lost.
        let mut list = linker.list(nearest, level).lock();
        let last = list.count() - 1;
        let other = list.get(last);
        list.set(last, node);
        drop(list);
        let mut list = linker.list(node, level).lock();
        let known = (0..list.count()).any(|place| list.get(place) == other);
        if !known && list.count() < limit {
            list.push(other);
        } else if !known {
            list.set(limit - 1, other);
        }
    }
    Ok(())
}
