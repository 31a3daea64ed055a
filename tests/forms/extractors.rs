//! axum handlers with every usual extractor, with the attribute above and below
//! `#[axum::debug_handler]`, and with each kind of return type.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Extension, FromRef, Path, Query, Request, State};
use axum::http::{HeaderMap, Method, StatusCode, Uri};
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
        (
            status,
            self.0.key().map(ToString::to_string).unwrap_or_default(),
        )
            .into_response()
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

/// A generic handler, as in a generic router.
#[distributed_lock(key = "generic:<N>", pool = locks)]
async fn generic<S: Clone + Send + Sync + 'static, const N: usize>(
    State(locks): State<LockPool>,
    _: State<S>,
) -> Result<String, ShopError> {
    Ok(held())
}

struct Handlers;

impl Handlers {
    #[distributed_lock(key = "associated:<id>", pool = locks)]
    async fn associated(
        State(locks): State<LockPool>,
        Path(id): Path<u8>,
    ) -> Result<String, ShopError> {
        Ok(held())
    }

    /// A method's future behind a closure.
    #[distributed_lock(key = "method:<id>", pool = locks)]
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
    let app = Router::new()
        .route("/debug/above", post(debug_above))
        .route("/debug/below", get(debug_below))
        .route("/unpacked/{id}", post(unpacked_nowhere))
        .route("/request/{id}", post(whole_request))
        .route("/bare", get(bare_impl))
        .route("/skipped", get(skipped))
        .route("/generic", get(generic::<App, 3>))
        .route("/associated/{id}", get(Handlers::associated))
        .route("/method/{id}", Arc::new(Handlers).routes())
        .layer(Extension(locks.clone()))
        .with_state(App { locks, shop });
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, app).await });
    address
}

#[tokio::test]
async fn extractors_reach_the_key_and_the_body() {
    let address = serve(memory().await).await;
    let order = r#"{"user":7,"item":"a b"}"#;
    let response = http::post(address, "/debug/above", order).await;
    let item = "a b eu order:7:a%20b";
    http::check(&response, 200, &format!(r#"{{"user":7,"item":"{item}"}}"#));
    let response = http::post(address, "/unpacked/7", "text").await;
    http::check(&response, 200, "eu /unpacked/7 text POST 7 eu");
    let response = http::post(address, "/request/7", "four").await;
    http::check(&response, 200, "7 4 request:7");
    for (path, status, body) in [
        ("/debug/below?page=3", 201, "eu 3 page:3:eu"),
        ("/bare", 200, "bare"),
        ("/skipped", 503, ""),
        ("/generic", 200, "generic:3"),
        ("/associated/5", 200, "associated:5"),
        ("/method/5", 200, "method:5"),
    ] {
        http::check(&http::get(address, path).await, status, body);
    }
}

#[tokio::test]
async fn a_busy_lock_is_each_handlers_response() {
    let pool = memory().await;
    let address = serve(pool.clone()).await;
    for key in [
        "order:7:x",
        "page:3:eu",
        "POST 7 eu",
        "request:7",
        "bare",
        "optional",
    ] {
        std::mem::forget(pool.lock(key).acquire().await.unwrap());
    }
    let order = r#"{"user":7,"item":"x"}"#;
    let response = http::post(address, "/debug/above", order).await;
    http::check(&response, 409, "order:7:x");
    let response = http::get(address, "/debug/below?page=3").await;
    http::check(&response, 409, "page:3:eu");
    let response = http::post(address, "/unpacked/7", "").await;
    http::check(&response, 409, "POST 7 eu");
    let response = http::post(address, "/request/7", "").await;
    http::check(&response, 409, "request:7");
    let response = http::get(address, "/bare").await;
    assert!(response.starts_with("HTTP/1.1 409 "), "{response}");
    http::check(&http::get(address, "/skipped").await, 200, "");
    let response = http::get(address, "/debug/below?page=x").await;
    assert!(
        response.starts_with("HTTP/1.1 400 "),
        "the extractor's own: {response}"
    );
}
