//! axum handlers with every usual extractor, with the attribute above and below
//! `#[axum::debug_handler]`, and with each kind of return type.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Extension, FromRef, Path, Query, Request, State};
use axum::http::{HeaderMap, Method, StatusCode, Uri, header};
use axum::middleware::{Next, from_fn};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::{MethodRouter, get, post};
use axum::{Json, Router, debug_handler};
use dlock_runtime::{LockError, LockPool, distributed_lock, lock_key};
use serde::{Deserialize, Serialize};
use tokio::net::TcpListener;

use crate::http;
use crate::{held, memory};

#[derive(Clone, FromRef)]
struct App {
    locks: LockPool,
    shop: Arc<Shop>,
}

struct Shop {
    name: &'static str,
}

#[derive(Deserialize, Serialize)]
struct Order {
    user: u32,
    item: String,
}

#[derive(Deserialize)]
struct Page {
    page: u32,
}

/// As in most programs: one error type, which is a response and has a `From<LockError>`.
struct ShopError(LockError);

impl From<LockError> for ShopError {
    fn from(error: LockError) -> Self {
        Self(error)
    }
}

impl IntoResponse for ShopError {
    fn into_response(self) -> Response {
        let status = if self.0.is_busy() {
            StatusCode::CONFLICT
        } else {
            StatusCode::SERVICE_UNAVAILABLE
        };
        let seconds = self.0.retry_after().map_or(0, |after| after.as_secs());
        let headers = [(header::RETRY_AFTER, seconds.to_string())];
        let key = self.0.key().map(ToString::to_string).unwrap_or_default();
        (status, headers, key).into_response()
    }
}

#[debug_handler(state = App)]
#[distributed_lock(key = "order:<order.user>:<order.item>", wait = "0s", pool = app.locks)]
async fn debug_above(
    State(app): State<App>,
    Json(order): Json<Order>,
) -> Result<Json<Order>, ShopError> {
    tokio::task::yield_now().await;
    let item = [&order.item, app.shop.name, &held()].join(" ");
    Ok(Json(Order { item, ..order }))
}

#[distributed_lock(key = "page:<page>:<shop.name>", wait = "0s", pool = locks)]
#[debug_handler(state = App)]
async fn debug_below(
    State(locks): State<LockPool>,
    State(shop): State<Arc<Shop>>,
    Query(Page { page }): Query<Page>,
) -> Result<impl IntoResponse, ShopError> {
    Ok((
        StatusCode::CREATED,
        format!("{} {page} {}", shop.name, held()),
    ))
}

/// Extractors without a pattern are used by their fields and methods.
#[distributed_lock(
    key = {
        let (id, shop) = (&path["id"], headers["x-shop"].to_str().unwrap_or_default());
        lock_key!("<method> <id> <shop>")
    },
    pool = state.locks,
    wait = "0s",
    on_error = |error| ShopError(error).into_response()
)]
async fn unpacked_nowhere(
    state: State<App>,
    method: Method,
    uri: Uri,
    path: Path<HashMap<String, String>>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    let body = axum::body::to_bytes(body, 100).await.unwrap();
    let text = String::from_utf8(body.to_vec()).unwrap();
    Html(format!("{} {uri} {text} {}", state.shop.name, held())).into_response()
}

#[distributed_lock(key = "request:<id>", wait = "0s", pool = locks, on_error = |error| Err(ShopError(error)))]
async fn whole_request(
    Path(id): Path<u64>,
    Extension(locks): Extension<LockPool>,
    request: Request,
) -> Result<Response, ShopError> {
    let length = request.into_body();
    let length = axum::body::to_bytes(length, 100).await.unwrap().len();
    Ok(format!("{id} {length} {}", held()).into_response())
}

#[distributed_lock(key = "bare", wait = "0s", pool = locks, on_error = |error| (StatusCode::CONFLICT, error.to_string()))]
#[debug_handler(state = App)]
async fn bare_impl(State(locks): State<LockPool>) -> impl IntoResponse {
    (StatusCode::OK, held())
}

#[distributed_lock(key = "optional", on_busy = "skip", pool = locks)]
async fn skipped(State(locks): State<LockPool>) -> Result<(), ShopError> {
    assert_eq!(held(), "optional");
    Err(ShopError(LockError::ShutDown))
}

/// The pool is that of the scope which a middleware puts around every request.
#[distributed_lock(key = "line:<id>:<line>", wait = "0s", map_err = ShopError)]
async fn in_scope(Path((id, line)): Path<(u64, String)>) -> Result<impl IntoResponse, ShopError> {
    Ok((StatusCode::ACCEPTED, format!("{id} {line} {}", held())))
}

/// A generic handler, as in a generic router.
#[distributed_lock(key = "generic:<N>", wait = "0s", pool = locks)]
async fn generic<S: Clone + Send + Sync + 'static, const N: usize>(
    State(locks): State<LockPool>,
    _: State<S>,
) -> Result<String, ShopError> {
    Ok(held())
}

struct Handlers;

impl Handlers {
    #[distributed_lock(key = "associated:<id>", wait = "0s", pool = locks)]
    async fn associated(
        State(locks): State<LockPool>,
        Path(id): Path<u8>,
    ) -> Result<String, ShopError> {
        Ok(held())
    }

    /// A method's future behind a closure.
    #[distributed_lock(key = "method:<id>", wait = "0s", pool = locks)]
    async fn method(self: Arc<Self>, id: u8, locks: LockPool) -> Result<String, ShopError> {
        Ok(held())
    }

    fn routes(self: Arc<Self>) -> MethodRouter<App> {
        get(
            |State(locks): State<LockPool>, Path(id): Path<u8>| async move {
                self.method(id, locks).await
            },
        )
    }
}

async fn serve(locks: LockPool) -> SocketAddr {
    let shop = Arc::new(Shop { name: "eu" });
    let scoped = locks.clone();
    let scope = from_fn(move |request: Request, next: Next| {
        let pool = scoped.clone();
        async move { pool.scope(next.run(request)).await }
    });
    let app = Router::new()
        .route("/debug/above", post(debug_above))
        .route("/debug/below", get(debug_below))
        .route("/unpacked/{id}", post(unpacked_nowhere))
        .route("/request/{id}", post(whole_request))
        .route("/bare", get(bare_impl))
        .route("/skipped", get(skipped))
        .route("/scope/{id}/{line}", get(in_scope))
        .route("/generic", get(generic::<App, 3>))
        .route("/associated/{id}", get(Handlers::associated))
        .route("/method/{id}", Arc::new(Handlers).routes())
        .layer(Extension(locks.clone()))
        .layer(scope)
        .with_state(App { locks, shop });
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, app).await });
    address
}

const ROWS: &str = r#"
POST /debug/above {"user":7,"item":"a"} | 200 {"user":7,"item":"a eu order:7:a"} | order:7:a | 409 order:7:a
POST /debug/above {"user":8,"item":"b c"} | 200 {"user":8,"item":"b c eu order:8:b%20c"} | order:8:b%20c | 409 order:8:b%20c
GET /debug/below?page=3 | 201 eu 3 page:3:eu | page:3:eu | 409 page:3:eu
POST /unpacked/7 text | 200 eu /unpacked/7 text POST 7 eu | POST 7 eu | 409 POST 7 eu
POST /request/7 four | 200 7 4 request:7 | request:7 | 409 request:7
GET /bare | 200 bare | bare | 409 *
GET /skipped | 503 | optional | 200
GET /scope/7/a%2Fb | 202 7 a/b line:7:a%2Fb | line:7:a%2Fb | 409 line:7:a%2Fb
GET /generic | 200 generic:3 | generic:3 | 409 generic:3
GET /associated/5 | 200 associated:5 | associated:5 | 409 associated:5
GET /method/5 | 200 method:5 | method:5 | 409 method:5
"#;

#[tokio::test]
async fn each_handler_locks_what_its_request_names() {
    let pool = memory().await;
    let address = serve(pool.clone()).await;
    http::check_rows(ROWS, address, &pool).await;
    let response = http::ask(address, "GET /debug/below?page=x").await;
    http::check(&response, "400 *"); // the extractor's own
    let _busy = pool.lock("request:7").acquire().await.unwrap();
    let response = http::ask(address, "POST /request/7").await;
    assert!(response.contains("\r\nretry-after: "), "{response}");
}
