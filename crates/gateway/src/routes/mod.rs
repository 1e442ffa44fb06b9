//! The one table of routes. The router, the OpenAPI description and `docs/reference/http.md` are
//! made from it. A route is a method, paths, and a function of the schema `rag_api`, which gets the
//! fields of the request as one JSON object.
//!
//! | file | routes |
//! |---|---|
//! | [`own`] | the gateway's own |
//! | [`openai`] | OpenAI's API |
//! | [`kaito`] | KAITO's RAG engine |
//! | [`services`] | Dify, Wegent, agent_core and RAG-benchmark |
//! | [`system`] | health, metrics and descriptions, without a function |

mod kaito;
mod openai;
mod own;
mod services;
mod system;

use axum::http::Method;

use crate::problem::Contract;

/// Where a field of a request is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    Path,
    Query,
    /// A member of the JSON object, or a part of a form.
    Body,
}

/// The type of a field.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Type {
    Text,
    Integer,
    Boolean,
    Object,
    /// An array of texts.
    Texts,
    /// An array of objects.
    Objects,
    /// A text, or an array of texts.
    TextOrTexts,
    /// A file of a form. The function gets its bytes as `content_base64`, and its name as
    /// `filename`.
    File,
    Any,
}

/// A field of a request.
#[derive(Debug, Clone, Copy)]
pub struct Field {
    pub name: &'static str,
    pub place: Place,
    pub kind: Type,
    pub required: bool,
    pub about: &'static str,
}

impl Field {
    const fn new(place: Place, name: &'static str, kind: Type, about: &'static str) -> Self {
        Self {
            name,
            place,
            kind,
            required: matches!(place, Place::Path),
            about,
        }
    }

    const fn required(self) -> Self {
        Self {
            required: true,
            ..self
        }
    }
}

const fn path(name: &'static str, about: &'static str) -> Field {
    Field::new(Place::Path, name, Type::Text, about)
}

const fn path_integer(name: &'static str, about: &'static str) -> Field {
    Field::new(Place::Path, name, Type::Integer, about)
}

const fn query(name: &'static str, kind: Type, about: &'static str) -> Field {
    Field::new(Place::Query, name, kind, about)
}

const fn body(name: &'static str, kind: Type, about: &'static str) -> Field {
    Field::new(Place::Body, name, kind, about)
}

/// What the body of a request is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Body {
    None,
    /// A JSON object with the fields of the table, and no others.
    Json,
    /// A JSON object whose further members are ignored, as clients of OpenAI's API send them.
    OpenJson,
    /// A JSON object, or a form with these fields.
    JsonOrForm,
    /// A form.
    Form,
    /// JSON that the function checks itself, and gets as it is.
    Raw,
    /// JSON that the function gets as the member `body`, beside the fields of the path.
    Member,
}

/// What is done with the answer of the function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Output {
    Json,
    /// The array `items` of the answer.
    Items,
    /// Embeddings, whose numbers may be wanted as base64.
    Embeddings,
    /// An answer, or its pieces as server-sent events if `stream` is true.
    Answer,
    ChatCompletion,
    Response,
    /// Times of searches, to which the program adds its own.
    SearchStats,
    /// A file of the console.
    File,
    /// The routes of [`system`].
    Health,
    Ready,
    Metrics,
    OpenApi,
    ProtectedResource,
    Events,
}

/// A route.
#[derive(Debug, Clone, Copy)]
pub struct Route {
    pub method: Verb,
    /// The first path is the one to use. The others are for clients that know them.
    pub paths: &'static [&'static str],
    /// Function of the schema `rag_api`. Empty: there is none.
    pub function: &'static str,
    pub summary: &'static str,
    /// What the answer has.
    pub result: &'static str,
    pub tag: &'static str,
    pub contract: Contract,
    pub body: Body,
    pub output: Output,
    pub fields: &'static [Field],
    pub status: u16,
    /// The transaction is READ ONLY.
    pub reads: bool,
}

/// The methods that routes have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    Get,
    Post,
    Put,
    Patch,
    Delete,
}

impl Verb {
    pub fn http(self) -> Method {
        match self {
            Self::Get => Method::GET,
            Self::Post => Method::POST,
            Self::Put => Method::PUT,
            Self::Patch => Method::PATCH,
            Self::Delete => Method::DELETE,
        }
    }
}

impl Route {
    const fn new(
        method: Verb,
        paths: &'static [&'static str],
        function: &'static str,
        fields: &'static [Field],
        summary: &'static str,
        result: &'static str,
    ) -> Self {
        Self {
            method,
            paths,
            function,
            summary,
            result,
            tag: "",
            contract: Contract::Problem,
            body: Body::None,
            output: Output::Json,
            fields,
            status: 200,
            reads: matches!(method, Verb::Get),
        }
    }

    const fn of(self, tag: &'static str, contract: Contract) -> Self {
        Self {
            tag,
            contract,
            ..self
        }
    }

    const fn body(self, body: Body) -> Self {
        Self { body, ..self }
    }

    const fn output(self, output: Output) -> Self {
        Self { output, ..self }
    }

    const fn created(self) -> Self {
        Self {
            status: 201,
            ..self
        }
    }

    const fn accepted(self) -> Self {
        Self {
            status: 202,
            ..self
        }
    }

    const fn reads(self) -> Self {
        Self {
            reads: true,
            ..self
        }
    }

    /// Returns true if the route needs no key.
    pub fn is_open(&self) -> bool {
        matches!(
            self.output,
            Output::Health
                | Output::Ready
                | Output::Metrics
                | Output::OpenApi
                | Output::File
                | Output::ProtectedResource
        )
    }

    /// Returns the statuses of errors that the route may answer, ascending.
    pub fn errors(&self) -> Vec<u16> {
        let mut errors = vec![503];
        if matches!(self.output, Output::Health | Output::File) {
            return vec![];
        }
        if !self.is_open() {
            errors.extend([400, 401, 403, 404, 409, 429, 500, 504]);
        }
        if self.body != Body::None {
            errors.extend([408, 413, 415]);
        }
        errors.sort_unstable();
        errors
    }
}

/// Returns all routes.
pub fn all() -> impl Iterator<Item = &'static Route> {
    let groups: [&'static [Route]; 5] = [
        own::ROUTES,
        openai::ROUTES,
        services::ROUTES,
        kaito::ROUTES,
        system::ROUTES,
    ];
    groups.into_iter().flatten()
}

const GET: Verb = Verb::Get;
const POST: Verb = Verb::Post;
const PUT: Verb = Verb::Put;
const PATCH: Verb = Verb::Patch;
const DELETE: Verb = Verb::Delete;
