//! The metadata filter of `rag_search`: it restricts which chunks can be found.
//!
//! A filter is JSON. [`parse`] turns it into a typed tree or reports what is wrong and where.
//! [`Filter::to_sql`] turns the tree into a condition over `rag.chunks AS c`. Keys and values are
//! parameters: no character that a user wrote is in the SQL. The crate knows nothing of Postgres
//! except its SQL.
//!
//! ```
//! let filter = serde_json::json!({"operator": "or", "conditions": [
//!     {"key": "category", "operator": "eq", "value": "tech"},
//!     {"key": "draft", "operator": "eq", "value": true}]});
//! let sql = rag_filter::parse(&filter)?.to_sql(2);
//! assert_eq!(
//!     sql.text,
//!     "((c.category = $2::text) OR (c.metadata @> $3::jsonb))"
//! );
//! assert_eq!(sql.params.len(), 2);
//! # Ok::<(), rag_filter::FilterError>(())
//! ```
//!
//! Names in the SQL have no schema: run it with `search_path` set to `pg_catalog`.
//!
//! # Forms
//!
//! * **None**: `null` or `{}`. Every row passes.
//! * **Containment**: `{"category": "tech", "year": 2020}`, any object that has neither of the
//!   other forms. All members must hold: columns are equal (or one of an array), `tags` and
//!   `heading` have all the given texts, and `metadata` contains the rest as `@>` does (nested
//!   objects and arrays by their parts).
//! * **Condition**: `{"key": ..., "operator": ..., "value": ...}`, any object with a key and an
//!   operator.
//! * **Conditions**: `{"operator": "and", "conditions": [...]}`, any object with a member
//!   `conditions`. Each element is a condition or another group. `operator` is `and` (the default,
//!   also for null) or `or`, case-insensitively.
//!
//! Dify's names are accepted as well: `logical_operator` of a group, `name` (a string, or an array
//! of one) and `comparison_operator` of a condition. Everything else is an error: unknown members
//! and operators, operators of other languages (`{"priority": {"$gt": 3}}`), no conditions, values
//! of the wrong type, groups or values nested deeper than [`MAX_DEPTH`], more than
//! [`MAX_CONDITIONS`] conditions.
//!
//! # Keys
//!
//! | key | selects | values |
//! |---|---|---|
//! | `category`, `title`, `uri`, `source`, `former_source` | a text column | string |
//! | `document_type` | a text column | name of a document type |
//! | `source_file` | the uri, or its last part: what follows the last `/` or `#` | string |
//! | `tags`, `heading` | a `text[]` column: `tags`, `heading_path` | string, array of strings |
//! | `knowledge_id` or `knowledge_ids`, `chunk_index`, `page` | an integer column | integer, also as a string of digits |
//! | `document_id` or `doc_ref`, `chunk_id` | a `uuid` column | a UUID in a string |
//! | `indexed_at`, `fetched_at` | a `timestamptz` column | ISO 8601 string |
//! | `metadata.x` | the metadata key `x`, even if there is a column `x` | any JSON |
//! | any other `x` | the metadata key `x` | any JSON |
//!
//! A metadata key is a top-level key; dots in it have no meaning.
//!
//! # Operators
//!
//! Names are case-insensitive. An integer column has the operators of a timestamp column except
//! `before` and `after`. A `uuid` column has `eq`, `in` and `not empty` with their opposites.
//!
//! | operator | also | metadata | text column | `tags`, `heading` | integer, timestamp and `uuid` columns |
//! |---|---|---|---|---|---|
//! | `eq` | `is` `=` `==` | the same JSON | equal, or one of an array | a string: has that one; an array: has these and no others | equal, or one of an array |
//! | `in` | | the same JSON as one of the array | one of the array | has one of the array | one of the array |
//! | `gt` `gte` `lt` `lte` | `>` `≥` `>=` `<` `≤` `<=` | numbers by value, strings by code point | by code point | – | by value or time |
//! | `contains` | | a string with this part, or an array with this element | has this part | has this one, or all of these | – |
//! | `text_match` | | a string with this part, or an array with such an element, case-insensitively | has this part, case-insensitively | one has this part, case-insensitively | – |
//! | `start with`, `end with` | | a string that does so | does so | – | – |
//! | `before`, `after` | | a string that is an earlier or later time; a number as with `lt`, `gt` | – | – | earlier, later (timestamps) |
//! | `not empty` | | exists, and is not null, `""`, `[]` or `{}` | neither NULL nor `''` | at least one | not NULL |
//!
//! * **Opposites**: `ne` (`is not`, `≠`, `!=`), `nin` (`not in`), `not contains` and `empty` match
//!   exactly the rows that `eq`, `in`, `contains` and `not empty` do not. So they match rows
//!   without the key, with a value of another type, and with a NULL column.
//! * **Types** of metadata: a number and a text that is one (`4`, `-0.50`; not `007` or `1e5`)
//!   compare as numbers, so `eq 2020` and `eq "2020"` match both 2020 and `"2020"`. `eq` recognizes
//!   texts only in the form `2020` or `2020.0`. Otherwise a value of another type than the filter's
//!   is not equal, not less and not greater: `eq false` does not match `0`.
//! * **null**: `eq null` matches JSON null in metadata (not a missing key) and NULL in a column.
//! * **Arrays and objects** in metadata are equal as a whole, arrays in order; use `contains` for
//!   elements. `eq []` of `tags` matches rows with an empty array, not NULL; `empty` matches both.
//! * **Text** is compared case-sensitively and without patterns: `%` and `_` mean themselves. Order
//!   by code point is the same on every server and sorts ISO 8601 dates of one format and zone by
//!   time. `text_match` ignores the case of the letters that the database's locale knows.
//! * **Times** are dates, or dates with a time and an optional zone, `2024-05-31T10:30:00.5+02:00`;
//!   without a zone the session's `TimeZone` applies. Metadata that is not such a text is neither
//!   before nor after anything. The times of a filter are checked when it is parsed.
//! * **Empty values**: `in []` matches no row and `nin []` every row; every string contains, starts
//!   with and ends with `""`.
//!
//! `tests/rows/` checks each of these against a server.
//!
//! # Requests
//!
//! [`parse_request`] reads the member of an application's request. There a group without conditions
//! restricts nothing, and a condition without an operator means `eq`.
//!
//! # Fields of a query
//!
//! [`Filter::with_title`] and [`Filter::with_uri`] add what the fields of a query require:
//! `title:word`, `-uri:drafts/`.
//!
//! # Dify
//!
//! [`parse_dify`] reads the conditions that Dify sends to external knowledge bases. It knows only
//! Dify's names, and gives some operators the meaning that they have in Dify: see
//! `src/dify.rs`.
//!
//! # Indexes
//!
//! Containment and `eq` of a metadata string, number, boolean or null become `c.metadata @> ...`
//! (two of them with OR for a number), for which a GIN index on `metadata` can be used. A btree
//! serves `eq` and `in` of columns, and the order of numbers and times (that of text only with
//! collation "C"). A GIN index serves `eq`, `in` and `contains` of `tags`. Opposites and the other
//! tests read each row.

mod condition;
mod dify;
mod error;
mod facet;
mod key;
mod labels;
mod number;
mod operand;
mod operator;
mod parse;
mod sql;
mod timestamp;
mod usage;
mod value;

use condition::{Node, Test, TextTest};

pub use condition::TitleWords;
pub use dify::parse_dify;
pub use error::FilterError;
pub use facet::Facet;
pub use key::columns;
pub use labels::{LabelledRow, labels};
pub use parse::{is_condition, parse, parse_member, parse_request};
pub use sql::{Param, Sql};
pub use usage::{ColumnUse, Usage};

/// Maximum nesting of groups, and of arrays and objects in a value.
pub const MAX_DEPTH: usize = 32;

/// Maximum number of conditions in a filter, over all groups.
pub const MAX_CONDITIONS: usize = 1000;

/// A well-formed filter.
#[derive(Debug, Clone, PartialEq)]
pub struct Filter {
    root: Node,
    usages: Vec<Usage>,
    columns: Vec<ColumnUse>,
}

impl Filter {
    /// Returns the filter that every row passes.
    pub(crate) fn unrestricted() -> Self {
        Self {
            root: Node::All(Vec::new()),
            usages: Vec::new(),
            columns: Vec::new(),
        }
    }

    /// Returns true if every row passes.
    pub fn is_unrestricted(&self) -> bool {
        self.root == Node::All(Vec::new())
    }

    /// Returns the metadata keys that a row must have to pass, or to pass one part of the filter.
    pub fn usages(&self) -> &[Usage] {
        &self.usages
    }

    /// Returns the keys of conditions that mean columns, if a row must meet the condition to pass,
    /// or to pass one part of the filter.
    pub fn columns(&self) -> &[ColumnUse] {
        &self.columns
    }

    /// Adds words that titles must have, or must not have.
    #[must_use]
    pub fn with_title(self, words: TitleWords, is_excluded: bool) -> Self {
        self.with(Test::Title(words), is_excluded)
    }

    /// Adds a part that uris must have, or must not have, in letters of either case.
    #[must_use]
    pub fn with_uri(self, part: &str, is_excluded: bool) -> Self {
        let test = Test::Text {
            column: "uri",
            test: TextTest::Matches(part.to_owned()),
        };
        self.with(test, is_excluded)
    }

    fn with(mut self, test: Test, is_excluded: bool) -> Self {
        let node = if is_excluded {
            Node::Not(test)
        } else {
            Node::Holds(test)
        };
        match &mut self.root {
            Node::All(nodes) => nodes.push(node),
            _ => self.root = Node::All(vec![self.root, node]),
        }
        self
    }

    /// Returns the condition for a WHERE clause, with placeholders numbered from `first_param`;
    /// `true` for an empty filter.
    pub fn to_sql(&self, first_param: usize) -> Sql {
        sql::write(&self.root, first_param)
    }
}
