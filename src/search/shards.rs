//! Searches of chunks that are distributed over servers.
//!
//! ```text
//! statistics of the words, of all shards ──▶ vector list, keyword list ──▶ fusion, as on one server
//! ```
//!
//! Each step is one flat statement: Citus sends it to all shards at once, and each returns its best
//! rows. A subquery or a join of lists would be a round trip to all servers. Words have the
//! statistics of all shards ([`given`]), so scores are those of one server. Rows have no places
//! here, so what depends on an index is asked of the shard by functions, in the same statement.

use std::{cell::RefCell, collections::HashMap};

use pgrx::pg_sys;
use rag_retrieval::fusion::ChunkKey;

use super::{
    find::{Found, MIN_EF_SEARCH, POOL_GROWTH, Query, best_row, with_scan_settings},
    statements::{ShardList, ShardRow, Statements},
    trace::{Event, Part},
    words::QueryWords,
};
use crate::{
    catalog::{
        access::sees_every_row,
        chunks::{as_reader, check_not_moved},
        collections::Collection,
        partitions::Partition,
        shards::{self, Distribution, ShardsOfPartition},
    },
    collection::{corruption::IndexUse, index},
    error::Error,
    index::bm25::given::{GivenStatistics, rank_by_shards},
    pg::{
        spi::as_owner,
        transaction::{StatementStamp, statement_stamp},
    },
    settings,
    storage::{IndexScan, Storage},
};

/// Number of documents among which one for each shard is looked for.
const SAMPLE: i64 = 1000;

/// A document of each shard of a partition, through which the shard is asked for statistics.
#[derive(Clone)]
struct ShardDocuments {
    collections: Vec<String>,
    documents: Vec<pgrx::Uuid>,
    /// The shards that there were.
    of: ShardsOfPartition,
}

/// Statistics that several collections share in a statement, by their indexes and the words.
type SharedStatistics = (
    Option<StatementStamp>,
    HashMap<(pg_sys::Oid, String), GivenStatistics>,
);

thread_local! {
    /// By the names of partitions.
    static DOCUMENTS: RefCell<HashMap<String, ShardDocuments>> = RefCell::default();
    static SHARED: RefCell<SharedStatistics> = RefCell::default();
}

/// Returns the words as a query with the statistics of all shards. `index` is the empty keyword
/// index of this server.
///
/// # Errors
/// A server cannot be asked.
pub fn query(collection: &Collection, index: pg_sys::Oid, words: &str) -> Result<String, Error> {
    let now = statement_stamp();
    let shared = SHARED.with_borrow(|(stamp, known)| {
        let is_current = now.is_some() && *stamp == now;
        let known = known.get(&(index, words.to_owned()));
        known.filter(|_| is_current).cloned()
    });
    let statistics = match shared {
        Some(known) => known,
        None => rank_by_shards(index, words, |used| statistics(collection, words, used))?,
    };
    Ok(statistics.query(words))
}

/// Gives words the same statistics in some collections. The indexes have the same rules.
///
/// # Errors
/// A server cannot be asked.
pub fn share_statistics(
    collections: &[(&Collection, pg_sys::Oid)],
    words: &str,
) -> Result<(), Error> {
    let Some((_, first)) = collections.first() else {
        return Ok(());
    };
    let sum = rank_by_shards(*first, words, |used| {
        let mut all = vec![];
        for (collection, _) in collections {
            all.extend(statistics(collection, words, used.clone())?);
        }
        Ok(all)
    })?;
    let now = statement_stamp();
    SHARED.with_borrow_mut(|(stamp, known)| {
        if *stamp != now {
            *stamp = now;
            known.clear();
        }
        for (_, index) in collections {
            known.insert((*index, words.to_owned()), sum.clone());
        }
    });
    Ok(())
}

/// Returns the statistics of words in each shard with chunks of the collection's partition.
fn statistics(
    collection: &Collection,
    words: &str,
    used: Option<Vec<String>>,
) -> Result<Vec<GivenStatistics>, Error> {
    let Some(partition) = &collection.partition else {
        return Ok(vec![]);
    };
    check_not_moved(collection)?;
    let shards = shards::of_partition(partition)?;
    let known = DOCUMENTS.with_borrow(|all| all.get(partition.name()).cloned());
    if let Some(known) = known.filter(|known| known.of == shards) {
        let found = ask(partition, &known, words, used.clone())?;
        if found.len() == known.documents.len() {
            return Ok(found);
        }
        // a document was deleted
        DOCUMENTS.with_borrow_mut(|all| all.remove(partition.name()));
    }
    let new = documents(partition, shards)?;
    let found = ask(partition, &new, words, used)?;
    // as long as shards are empty, the next document may be in one
    if new.documents.len() == shards.most() {
        DOCUMENTS.with_borrow_mut(|all| all.insert(partition.name().to_owned(), new));
    }
    Ok(found)
}

/// Returns a document of each shard.
fn documents(partition: &Partition, of: ShardsOfPartition) -> Result<ShardDocuments, Error> {
    // the documents of a collection are in one shard, or in all
    let (key, sample) = match of.distribution {
        Distribution::ByCollection => ("d.collection", 1),
        Distribution::ByDocument => ("d.document_id", SAMPLE),
    };
    let found = as_owner(|owner| {
        owner.query(
            &format!(
                "SELECT DISTINCT ON (s.shard) d.collection, d.document_id
                 FROM (SELECT c.name, d.document_id
                       FROM rag_internal.collection c
                       CROSS JOIN LATERAL (
                           SELECT d.document_id FROM rag.documents d
                           WHERE d.collection = c.name AND d.chunk_count > 0 LIMIT $2) d
                       WHERE c.partition = $1) AS d (collection, document_id)
                 CROSS JOIN LATERAL
                     get_shard_id_for_distribution_column('rag.chunks', {key}) AS s (shard)
                 ORDER BY s.shard, d.document_id"
            ),
            &[partition.name().into(), sample.into()],
            |row| {
                let collection: String = row.required("collection")?;
                Ok((collection, row.required::<pgrx::Uuid>("document_id")?))
            },
        )
    })?;
    let (mut collections, documents): (Vec<String>, Vec<_>) = found.into_iter().unzip();
    collections.sort_unstable();
    collections.dedup();
    Ok(ShardDocuments {
        collections,
        documents,
        of,
    })
}

fn ask(
    partition: &Partition,
    of: &ShardDocuments,
    words: &str,
    used: Option<Vec<String>>,
) -> Result<Vec<GivenStatistics>, Error> {
    if of.documents.is_empty() {
        return Ok(vec![]);
    }
    let statement = format!(
        "SELECT DISTINCT rag_internal.keyword_statistics(c.tableoid, $1, $2) AS found
         FROM {} AS c
         WHERE c.document_id = ANY ($3) AND c.collection = ANY ($4)",
        partition.qualified()
    );
    let args = [
        words.into(),
        used.into(),
        of.documents.clone().into(),
        of.collections.clone().into(),
    ];
    let found =
        as_owner(|owner| owner.query(&statement, &args, |row| row.required::<String>("found")))?;
    let read = found.iter().map(|shard| GivenStatistics::of_shard(shard));
    let read: Option<Vec<_>> = read.collect();
    read.ok_or_else(|| Error::internal("a shard has returned no statistics"))
}

/// Returns which terms of a query a chunk has.
///
/// # Errors
/// A server cannot be asked.
pub fn terms_in(collection: &Collection, query: &str, chunk: ChunkKey) -> Result<Vec<bool>, Error> {
    let Some(partition) = &collection.partition else {
        return Ok(vec![]);
    };
    let statement = format!(
        "SELECT rag_internal.keyword_terms(c.tableoid, c.ctid, $1) AS terms FROM {} AS c
         WHERE {} AND c.document_id = $2 AND c.chunk_id = $3",
        partition.qualified(),
        collection.rows("c.")
    );
    let id = pgrx::Uuid::from_bytes;
    let args = [
        query.into(),
        id(chunk.document).into(),
        id(chunk.chunk).into(),
    ];
    let found =
        as_owner(|owner| owner.query(&statement, &args, |row| row.required::<Vec<bool>>("terms")))?;
    found
        .into_iter()
        .next()
        .ok_or_else(|| Error::internal("a chunk that was found does not exist"))
}

/// Returns the rows of a list whose chunks are in another one.
fn keys(rows: &[ShardRow]) -> (Vec<uuid::Uuid>, Vec<uuid::Uuid>) {
    let id = uuid::Uuid::from_bytes;
    let rows = rows.iter();
    rows.map(|row| (id(row.row.key.document), id(row.row.key.chunk)))
        .unzip()
}

impl Query<'_> {
    /// Returns the candidates of searches for `pool` chunks each. All scores that the mode uses are
    /// known of each candidate.
    pub fn candidates_of_shards(
        &self,
        statements: &Statements<'_>,
        pool: usize,
    ) -> Result<Found, Error> {
        if self.indexes == IndexUse::Forbidden {
            return Err(Error::unsupported(
                "a distributed collection cannot be searched without its indexes",
            )
            .hint(
                "Rebuild the index: REINDEX TABLE, with the name of the collection's partition.",
            ));
        }
        let query = self.words.and_then(QueryWords::of_shards);
        let mut found = Found::default();
        let mut nearest = vec![];
        if self.embedding.is_some() {
            (nearest, found.has_more) = self.trace.measure(Part::Vector, || {
                let (rows, has_more) = self.nearest_on_shards(statements, query, pool)?;
                self.trace.note(|| Event::FoundOnShards(rows.len()));
                Ok::<_, Error>((rows, has_more))
            })?;
            let list = nearest.iter();
            let list = list.filter_map(|row| Some((row.row.key, row.row.similarity?)));
            found.candidates.add_vector_list(list.collect(), pool);
        }
        if let Some(query) = query {
            let (best, has_more) = self.trace.measure(Part::Keyword, || {
                let (best, has_more) = self.best_on_shards(statements, query, pool)?;
                self.trace.note(|| Event::FoundOnShards(best.len()));
                self.trace.rows(best.len());
                Ok::<_, Error>((best, has_more))
            })?;
            found.has_more |= has_more;
            found.best_by_words = best_row(best.iter().map(|row| (&row.row, row.score)));
            let candidates = &mut found.candidates;
            let scores = best.iter().map(|row| (row.row.key, row.score));
            candidates.add_keyword_list(scores.collect(), pool);
            if self.embedding.is_some() {
                for row in &best {
                    candidates.set_cosine(row.row.key, row.row.similarity.unwrap_or_default());
                }
                nearest.retain(|row| candidates.lacks_keyword(row.row.key));
                for row in &nearest {
                    candidates.set_keyword(row.row.key, row.score);
                }
            }
        }
        Ok(found)
    }

    /// Returns the nearest chunks that have what the words of the query require, and nothing that
    /// they exclude, and whether there may be more. All have their keyword scores.
    fn nearest_on_shards(
        &self,
        statements: &Statements<'_>,
        query: Option<&str>,
        pool: usize,
    ) -> Result<(Vec<ShardRow>, bool), Error> {
        let requires = self.words.is_some_and(|words| words.requires);
        let mut limit = pool;
        loop {
            let mut rows = self.nearest_rows(statements, query, limit)?;
            let has_more = rows.len() >= limit;
            if query.is_some() && !sees_every_row(&self.request.collection) {
                self.add_scores(statements, query, &mut rows)?;
            }
            rows.retain(|row| row.is_allowed);
            let is_enough = requires || rows.len() * POOL_GROWTH >= pool;
            if query.is_none() || is_enough || !has_more {
                rows.truncate(pool);
                self.trace.rows(rows.len());
                return Ok((rows, has_more));
            }
            limit = limit.saturating_mul(POOL_GROWTH);
        }
    }

    fn nearest_rows(
        &self,
        statements: &Statements<'_>,
        query: Option<&str>,
        limit: usize,
    ) -> Result<Vec<ShardRow>, Error> {
        let collection = &self.request.collection;
        let storage = Storage::of(collection);
        let index = storage.index().filter(|_| index::exists(collection));
        let scan = IndexScan {
            ef_search: settings::ef_search().max(MIN_EF_SEARCH).max(2 * limit),
            is_complete: self.is_filtered() || 2 * limit > settings::MAX_EF_SEARCH,
        };
        // functions that read an index are not for roles that policies restrict
        let query = query.filter(|_| sees_every_row(collection));
        let run = |scan: IndexScan| {
            let statement =
                statements.on_shards(ShardList::Nearest { index, scan }, query, limit)?;
            // shards of this server are searched in this session
            with_scan_settings(storage, scan, || {
                check_not_moved(collection)?;
                as_reader(collection, |reader| {
                    statements.run_on_shards(reader, &statement)
                })
            })
        };
        let found = run(scan)?;
        if scan.is_complete || found.len() >= limit || index.is_none() {
            return Ok(found);
        }
        run(IndexScan {
            is_complete: true,
            ..scan
        })
    }

    /// Asks for the keyword scores of chunks that the caller may see.
    fn add_scores(
        &self,
        statements: &Statements<'_>,
        query: Option<&str>,
        rows: &mut [ShardRow],
    ) -> Result<(), Error> {
        let (documents, chunks) = keys(rows);
        let list = ShardList::Among(&documents, &chunks);
        let statement = statements.on_shards(list, query, rows.len())?;
        let scored = as_owner(|owner| statements.run_on_shards(owner, &statement))?;
        let by_key: HashMap<[u8; 32], &ShardRow> =
            scored.iter().map(|row| (bytes(row.row.key), row)).collect();
        for row in rows {
            let known = by_key.get(&bytes(row.row.key));
            row.score = known.map_or(0.0, |known| known.score);
            row.is_allowed = known.is_some_and(|known| known.is_allowed);
        }
        Ok(())
    }

    /// Returns the chunks with the highest BM25 scores that the caller may see, and whether there
    /// may be more.
    fn best_on_shards(
        &self,
        statements: &Statements<'_>,
        query: &str,
        pool: usize,
    ) -> Result<(Vec<ShardRow>, bool), Error> {
        let collection = &self.request.collection;
        let mut limit = pool;
        loop {
            check_not_moved(collection)?;
            let statement = statements.on_shards(ShardList::Best, Some(query), limit)?;
            let mut rows = as_owner(|owner| statements.run_on_shards(owner, &statement))?;
            let has_more = rows.len() >= limit;
            rows.retain(|row| row.score > 0.0);
            if !sees_every_row(collection) {
                let (documents, chunks) = keys(&rows);
                let visible = statements.run(&statements.among(&documents, &chunks))?;
                let visible: Vec<[u8; 32]> = visible.iter().map(|row| bytes(row.key)).collect();
                rows.retain(|row| visible.contains(&bytes(row.row.key)));
            }
            if rows.len() >= pool || !has_more {
                rows.truncate(pool);
                return Ok((rows, has_more));
            }
            limit = limit.saturating_mul(POOL_GROWTH);
        }
    }
}

fn bytes(key: ChunkKey) -> [u8; 32] {
    let mut bytes = [0; 32];
    bytes[..16].copy_from_slice(&key.document);
    bytes[16..].copy_from_slice(&key.chunk);
    bytes
}
