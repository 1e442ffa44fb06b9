//! A real git server on loopback: `git http-backend` behind a minimal HTTP server that keeps a log,
//! asks for a password and misbehaves where a test wants it to.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{Arc, Mutex, MutexGuard},
};

pub struct Server {
    pub url: String,
    state: Arc<Mutex<State>>,
}

/// What the server does, and what it has seen.
#[derive(Default)]
pub struct State {
    /// Value of the header `Authorization` without which everything is answered with 401.
    pub password: Option<String>,
    /// Statuses to answer with, one a request, before anything else; 0 is no fault.
    pub faults: Vec<u16>,
    /// Headers of such answers, each with its line end.
    pub fault_headers: String,
    /// Bytes of the next answers to a POST after which the connection breaks.
    pub cut: Option<usize>,
    /// Where everything is redirected to.
    pub redirect: Option<String>,
    pub log: Vec<Seen>,
}

#[derive(Debug, Clone)]
pub struct Seen {
    pub method: String,
    pub target: String,
    pub authorization: Option<String>,
    pub agents: Vec<String>,
    /// Bytes of the answer's body.
    pub sent: usize,
}

impl Server {
    /// Serves the repositories in `folder` until the test process ends.
    pub fn start(folder: &Path) -> Self {
        let backend = backend();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let state = Arc::new(Mutex::new(State::default()));
        let (folder, shared) = (folder.to_owned(), Arc::clone(&state));
        std::thread::spawn(move || {
            for connection in listener.incoming().flatten() {
                let (backend, folder, state) =
                    (backend.clone(), folder.clone(), Arc::clone(&shared));
                std::thread::spawn(move || answer(connection, &backend, &folder, &state));
            }
        });
        Self { url, state }
    }

    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// Methods of the requests since the last call, and the bytes that were sent in answer to
    /// POSTs.
    pub fn take_log(&self) -> (Vec<String>, usize) {
        let log = std::mem::take(&mut self.state().log);
        let sent = log
            .iter()
            .filter(|seen| seen.method == "POST")
            .map(|seen| seen.sent)
            .sum();
        (log.into_iter().map(|seen| seen.method).collect(), sent)
    }
}

/// The CGI program of git.
pub fn backend() -> PathBuf {
    let path = Command::new("git")
        .arg("--exec-path")
        .output()
        .unwrap()
        .stdout;
    let backend = Path::new(String::from_utf8(path).unwrap().trim()).join("git-http-backend");
    assert!(
        backend.exists(),
        "git http-backend comes with git: {}",
        backend.display()
    );
    backend
}

/// Answers one request and closes the connection. `/away/...` redirects to another host,
/// `/moved/...` within this one, and `/page/...` is a web page.
fn answer(mut connection: TcpStream, backend: &Path, folder: &Path, state: &Mutex<State>) {
    let mut reader = BufReader::new(connection.try_clone().unwrap());
    let line = |reader: &mut BufReader<TcpStream>| {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    };
    let request = line(&mut reader);
    let mut words = request.split(' ');
    let (Some(method), Some(target)) = (words.next(), words.next()) else {
        return;
    };
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let (mut length, mut content_type, mut authorization, mut agents) =
        (0, String::new(), None, vec![]);
    loop {
        let header = line(&mut reader);
        match header.split_once(": ") {
            Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                length = value.parse().unwrap()
            }
            Some((name, value)) if name.eq_ignore_ascii_case("content-type") => {
                content_type = value.into()
            }
            Some((name, value)) if name.eq_ignore_ascii_case("authorization") => {
                authorization = Some(value.to_owned())
            }
            Some((name, value)) if name.eq_ignore_ascii_case("user-agent") => {
                agents.push(value.to_owned())
            }
            None => break,
            _ => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    let (status, headers, cut, redirect) = {
        let mut state = state.lock().unwrap();
        let fault = (!state.faults.is_empty()).then(|| state.faults.remove(0));
        let is_refused = state.password.is_some() && authorization != state.password;
        let cut = if method == "POST" { state.cut } else { None };
        (
            fault.or(is_refused.then_some(401)),
            state.fault_headers.clone(),
            cut,
            state.redirect.clone(),
        )
    };
    let simple = |status: u16, headers: &str, text: &str| {
        format!(
            "HTTP/1.1 {status} -\r\nConnection: close\r\nContent-Length: {}\r\n{headers}\r\n{text}",
            text.len()
        )
    };
    let location = match (
        redirect,
        target.strip_prefix("/away"),
        target.strip_prefix("/moved"),
    ) {
        (Some(server), ..) => Some(format!("{server}{target}")),
        (_, Some(rest), _) => Some(format!("http://elsewhere.invalid{rest}")),
        (.., rest) => rest.map(Into::into),
    };
    let reply = match (status, location) {
        (Some(status @ 1..), _) => simple(status, &headers, "no").into_bytes(),
        (_, Some(location)) => simple(302, &format!("Location: {location}\r\n"), "").into_bytes(),
        _ if target.starts_with("/page") => {
            simple(200, "Content-Type: text/html\r\n", "<p>A page.").into_bytes()
        }
        _ => {
            let request = CgiRequest {
                method,
                path,
                query,
                content_type: &content_type,
                body: &body,
            };
            run(backend, folder, &request)
        }
    };
    let at = reply
        .windows(4)
        .position(|w| w == b"\r\n\r\n")
        .map_or(reply.len(), |at| at + 4);
    let seen = Seen {
        method: method.into(),
        target: target.into(),
        authorization,
        agents,
        sent: reply.len() - at,
    };
    state.lock().unwrap().log.push(seen);
    let end = cut.map_or(reply.len(), |cut| reply.len().min(at + cut));
    // the client may have left
    let _ = connection.write_all(&reply[..end]);
}

/// A request for git's CGI program.
pub struct CgiRequest<'a> {
    pub method: &'a str,
    pub path: &'a str,
    pub query: &'a str,
    pub content_type: &'a str,
    pub body: &'a [u8],
}

/// Runs git's own CGI program, and gives its answer in HTTP.
pub fn run(backend: &Path, folder: &Path, request: &CgiRequest<'_>) -> Vec<u8> {
    let environment = [
        ("GIT_PROJECT_ROOT", folder.to_str().unwrap()),
        ("GIT_HTTP_EXPORT_ALL", "1"),
        ("GIT_CONFIG_COUNT", "1"),
        ("GIT_CONFIG_KEY_0", "safe.directory"),
        ("GIT_CONFIG_VALUE_0", "*"),
        ("PATH_INFO", request.path),
        ("QUERY_STRING", request.query),
        ("REQUEST_METHOD", request.method),
        ("CONTENT_TYPE", request.content_type),
        ("CONTENT_LENGTH", &request.body.len().to_string()),
    ];
    let mut child = Command::new(backend)
        .envs(environment)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(request.body).unwrap();
    let reply = child.wait_with_output().unwrap().stdout;
    let body = reply
        .windows(4)
        .position(|w| w == b"\r\n\r\n")
        .map_or(reply.len(), |at| at + 4);
    let headers = String::from_utf8_lossy(&reply[..body]);
    let status = headers
        .strip_prefix("Status: ")
        .and_then(|rest| rest.lines().next())
        .unwrap_or("200 OK");
    let length = reply.len() - body;
    let head = format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n");
    [head.as_bytes(), &reply].concat()
}
