//! A real git server on loopback: `git http-backend` behind a minimal HTTP server.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// Serves the repositories in `folder` until the test process ends; `None` where git cannot serve.
pub fn serve(folder: &Path) -> Option<String> {
    let path = Command::new("git").arg("--exec-path").output().ok()?.stdout;
    let backend = Path::new(String::from_utf8(path).ok()?.trim()).join("git-http-backend");
    if !backend.exists() {
        return None;
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let folder = folder.to_owned();
    std::thread::spawn(move || {
        for connection in listener.incoming().flatten() {
            let (backend, folder) = (backend.clone(), folder.clone());
            std::thread::spawn(move || answer(connection, &backend, &folder));
        }
    });
    Some(url)
}

/// Answers one request and closes the connection. `/away/...` redirects to another host, `/moved/...` within this one.
fn answer(mut connection: TcpStream, backend: &PathBuf, folder: &Path) {
    let mut reader = BufReader::new(connection.try_clone().unwrap());
    let line = |reader: &mut BufReader<TcpStream>| {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    };
    let request = line(&mut reader);
    let mut words = request.split(' ');
    let (Some(method), Some(target)) = (words.next(), words.next()) else { return };
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let (mut length, mut content_type) = (0, String::new());
    loop {
        let header = line(&mut reader);
        match header.split_once(": ") {
            Some((name, value)) if name.eq_ignore_ascii_case("content-length") => length = value.parse().unwrap(),
            Some((name, value)) if name.eq_ignore_ascii_case("content-type") => content_type = value.into(),
            None => break,
            _ => {}
        }
    }
    let redirect = match (target.strip_prefix("/away"), target.strip_prefix("/moved")) {
        (Some(rest), _) => Some(format!("http://elsewhere.invalid{rest}")),
        (_, Some(rest)) => Some(rest.to_owned()),
        _ => None,
    };
    if let Some(location) = redirect {
        let head = "HTTP/1.1 302 Found\r\nContent-Length: 0\r\nConnection: close";
        write!(connection, "{head}\r\nLocation: {location}\r\n\r\n").unwrap();
        return;
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    let mut child = Command::new(backend)
        .env("GIT_PROJECT_ROOT", folder)
        .env("GIT_HTTP_EXPORT_ALL", "1")
        .env("GIT_CONFIG_COUNT", "1")
        .env("GIT_CONFIG_KEY_0", "safe.directory")
        .env("GIT_CONFIG_VALUE_0", "*")
        .env("PATH_INFO", path)
        .env("QUERY_STRING", query)
        .env("REQUEST_METHOD", method)
        .env("CONTENT_TYPE", content_type)
        .env("CONTENT_LENGTH", length.to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(&body).unwrap();
    let reply = child.wait_with_output().unwrap().stdout;
    let body = reply.windows(4).position(|w| w == b"\r\n\r\n").map_or(reply.len(), |at| at + 4);
    let headers = String::from_utf8_lossy(&reply[..body]);
    let status = headers.strip_prefix("Status: ").and_then(|rest| rest.lines().next()).unwrap_or("200 OK");
    let length = reply.len() - body;
    write!(connection, "HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n").unwrap();
    connection.write_all(&reply).unwrap();
}
