//! A server of git and of Git LFS on loopback. It refuses what real ones refuse: other media types,
//! missing credentials, URLs that have expired.

use std::{
    collections::HashMap,
    path::Path,
    sync::{Arc, Mutex, MutexGuard},
};

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::{
    server::{self, CgiRequest},
    web::{HttpRequest, Reply, Server},
};

pub const TYPE: &str = "application/vnd.git-lfs+json";

/// What the server has and does.
#[derive(Default)]
pub struct State {
    objects: HashMap<String, Vec<u8>>,
    /// Value of `Authorization` that batch requests need.
    pub password: Option<String>,
    /// Number of URLs that expire before they are used.
    pub expired: usize,
    /// What is answered to batch requests instead.
    pub batch: Option<Reply>,
    /// What stands for the `actions` of each object instead.
    pub actions: Option<Value>,
    /// What is sent for each object instead.
    pub file: Option<Vec<u8>>,
    /// Tokens of URLs that are valid.
    tokens: Vec<String>,
}

pub struct LfsHost {
    pub server: Server,
    state: Arc<Mutex<State>>,
}

impl LfsHost {
    /// Serves the repositories in a folder until the test process ends.
    pub fn start(repositories: &Path) -> Self {
        let state = Arc::new(Mutex::new(State::default()));
        let (shared, folder) = (Arc::clone(&state), repositories.to_owned());
        let backend = server::backend();
        let answer = move |request: &HttpRequest| {
            let (path, query) = request
                .target
                .split_once('?')
                .unwrap_or((&request.target, ""));
            if path.ends_with("/info/lfs/objects/batch") {
                return batch(request, &mut shared.lock().unwrap());
            }
            if let Some(oid) = path.strip_prefix("/objects/") {
                return object(request, oid, query, &mut shared.lock().unwrap());
            }
            // git itself is for everyone
            let request = CgiRequest {
                method: &request.method,
                path: path.strip_suffix("/").unwrap_or(path),
                query,
                content_type: request.header("content-type").unwrap_or_default(),
                body: &request.body,
            };
            Reply::raw(server::run(&backend, &folder, &request))
        };
        Self {
            server: Server::start(answer),
            state,
        }
    }

    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// Stores a file. Returns its pointer.
    pub fn store(&self, bytes: &[u8]) -> String {
        self.state().objects.insert(oid(bytes), bytes.into());
        pointer(bytes)
    }

    /// The paths of the requests for batches and files since the last call.
    pub fn take_log(&self) -> Vec<String> {
        let seen = self.server.requests();
        self.server.forget();
        let paths = seen
            .iter()
            .map(|request| request.target.split('?').next().unwrap());
        let paths = paths.filter_map(|path| {
            let is_file = path.starts_with("/objects/");
            (is_file || path.contains("/info/lfs/")).then_some(if is_file {
                "file"
            } else {
                "batch"
            })
        });
        paths.map(Into::into).collect()
    }
}

pub fn oid(bytes: &[u8]) -> String {
    Sha256::digest(bytes)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

pub fn pointer(bytes: &[u8]) -> String {
    let (oid, size) = (oid(bytes), bytes.len());
    format!("version https://git-lfs.github.com/spec/v1\noid sha256:{oid}\nsize {size}\n")
}

fn batch(request: &HttpRequest, state: &mut State) -> Reply {
    if let Some(reply) = &state.batch {
        return reply.clone();
    }
    let problem =
        |status: &str| Reply::ok(TYPE, json!({"message": status}).to_string()).status(status);
    if request.method != "POST" {
        return problem("405 Method Not Allowed");
    }
    if request.header("accept") != Some(TYPE) {
        return problem("406 Not Acceptable");
    }
    if request.header("content-type") != Some(TYPE) {
        return problem("415 Unsupported Media Type");
    }
    if state.password.is_some() && request.header("authorization") != state.password.as_deref() {
        return problem("401 Unauthorized");
    }
    let Ok(body) = serde_json::from_slice::<Value>(&request.body) else {
        return problem("422 Unprocessable Entity");
    };
    if body["operation"] != "download" || body["hash_algo"] != "sha256" {
        return problem("422 Unprocessable Entity");
    }
    let host = request.header("host").unwrap();
    let objects: Vec<Value> = body["objects"]
        .as_array()
        .unwrap()
        .iter()
        .map(|wanted| {
            let (oid, size) = (wanted["oid"].as_str().unwrap(), &wanted["size"]);
            let token = format!("RemoteAuth {}", state.tokens.len());
            let actions = match (&state.actions, state.objects.get(oid)) {
                (Some(actions), _) => actions.clone(),
                (None, None) => {
                    let error = json!({"code": 404, "message": "Object does not exist"});
                    return json!({"oid": oid, "size": size, "error": error});
                }
                (None, Some(_)) => json!({"download": {
                    "href": format!("http://{host}/objects/{oid}?part=1"),
                    "header": {"Authorization": token},
                    "expires_in": 600,
                }}),
            };
            state.tokens.push(token);
            json!({"oid": oid, "size": size, "authenticated": true, "actions": actions})
        })
        .collect();
    let answer = json!({"transfer": "basic", "objects": objects, "hash_algo": "sha256"});
    Reply::ok(TYPE, answer.to_string())
}

fn object(request: &HttpRequest, oid: &str, query: &str, state: &mut State) -> Reply {
    let problem = |status: &str| Reply::ok("text/plain", status).status(status);
    let given = request
        .header("authorization")
        .unwrap_or_default()
        .to_owned();
    if query != "part=1" || !state.tokens.contains(&given) {
        return problem("401 Unauthorized");
    }
    if state.expired > 0 {
        state.expired -= 1;
        return problem("403 Forbidden");
    }
    let bytes = state.file.as_ref().or_else(|| state.objects.get(oid));
    bytes.map_or_else(Reply::not_found, |bytes| {
        Reply::ok("application/octet-stream", bytes)
    })
}
