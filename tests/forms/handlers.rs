//! axum handlers in a `Router`, called over TCP: extractors in the key, and the response when the
//! lock is busy.

use axum::Router;
use axum::extract::{Path, Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use dlock_runtime::{LockError, LockPool, distributed_lock};
use tokio::net::TcpListener;

use crate::http::get as ask;
use crate::{held, memory};

#[derive(Clone)]
struct Shop {
    locks: LockPool,
}

#[allow(
    clippy::needless_pass_by_value,
    reason = "the shape that `map_err` asks for"
)]
fn to_status(error: LockError) -> StatusCode {
    if error.is_busy() {
        StatusCode::CONFLICT
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    }
}

/// As a shop's `impl IntoResponse for ShopError` would do it: with `Retry-After`.
fn to_response(error: LockError) -> Response {
    let seconds = error.retry_after().map_or(0, |after| after.as_secs());
    let headers = [(header::RETRY_AFTER, seconds.to_string())];
    (to_status(error), headers).into_response()
}

#[distributed_lock(key = "order:<id>", wait = "0s", pool = shop.locks, map_err = to_status)]
async fn with_state(State(shop): State<Shop>, Path(id): Path<u64>) -> Result<String, StatusCode> {
    let _: (Shop, u64) = (shop, id);
    tokio::task::yield_now().await;
    Ok(held())
}

#[distributed_lock(key = "order:<id>:<line>", wait = "0s", map_err = to_status)]
async fn in_scope(Path((id, line)): Path<(u64, String)>) -> Result<impl IntoResponse, StatusCode> {
    Ok((StatusCode::CREATED, format!("{id} {line} {}", held())))
}

#[distributed_lock(key = "order:<id>", wait = "0s", on_error = to_response)]
async fn any_response(Path(id): Path<u64>) -> Response {
    (StatusCode::ACCEPTED, format!("{id} {}", held())).into_response()
}

/// Serves, and returns the address. `locks` is the state's pool, and the scope that a middleware
/// puts around every request.
async fn serve(locks: LockPool) -> std::net::SocketAddr {
    let scoped = locks.clone();
    let scope = from_fn(move |request: Request, next: Next| {
        let pool = scoped.clone();
        async move { pool.scope(next.run(request)).await }
    });
    let app = Router::new()
        .route("/state/{id}", get(with_state))
        .route("/scope/{id}/{line}", get(in_scope))
        .route("/any/{id}", get(any_response))
        .layer(scope)
        .with_state(Shop { locks });
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, app).await });
    address
}

#[tokio::test]
async fn handlers_lock_what_was_asked_for() {
    let address = serve(memory().await).await;
    for (path, status, body) in [
        ("/state/7", "200", "order:7"),
        ("/scope/7/a%2Fb", "201", "7 a/b order:7:a%2Fb"),
        ("/any/7", "202", "7 order:7"),
    ] {
        let response = ask(address, path).await;
        assert!(
            response.starts_with(&format!("HTTP/1.1 {status}")),
            "{response}"
        );
        assert!(response.ends_with(&format!("\r\n\r\n{body}")), "{response}");
    }
}

#[tokio::test]
async fn a_busy_lock_is_the_handlers_response() {
    let pool = memory().await;
    let address = serve(pool.clone()).await;
    let busy = pool.lock("order:7").acquire().await.unwrap();
    for path in ["/state/7", "/any/7"] {
        let response = ask(address, path).await;
        assert!(response.starts_with("HTTP/1.1 409"), "{response}");
    }
    assert!(ask(address, "/any/7").await.contains("\r\nretry-after: "));
    assert!(
        ask(address, "/state/8").await.starts_with("HTTP/1.1 200"),
        "another key"
    );
    busy.release().await.unwrap();
    assert!(ask(address, "/any/7").await.starts_with("HTTP/1.1 202"));
}
