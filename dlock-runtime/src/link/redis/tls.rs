//! TLS on a connection's stream, by rustls: reads the certificates at each connect, shakes hands,
//! and says in words which side does not accept what.
//!
//! Invariants: the server's certificate is always checked; no error repeats a file's content.

use std::error::Error;
use std::fmt::Display;
use std::io;
use std::path::Path;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustls_native_certs::ErrorKind;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::watch;
use tokio::time::{Instant, timeout};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::client::WantsClientCert;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::{self, PemObject};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{
    self, AlertDescription, CertificateError, ClientConfig, ConfigBuilder, OtherError,
    RootCertStore,
};

use super::dial::{left, tcp};
use crate::link::command_error::CommandError;
use crate::values::config::{Host, Stream, Tls};
use crate::values::error::{Reason, Refusal};
use crate::values::process::PerProcess;
use crate::values::shown::rounded;

/// Shakes hands on a stream that was just opened to `host`. If the server stays silent for a while
/// and `probes`, its port is asked over another connection whether it speaks Redis's plain protocol.
pub(crate) async fn secure(
    stream: Box<dyn Stream>,
    tls: &Tls,
    host: &Host,
    until: Instant,
    probes: bool,
) -> Result<Box<dyn Stream>, CommandError> {
    let name = tls.server_name.as_deref().unwrap_or(&host.name);
    let name = ServerName::try_from(name.to_owned()).map_err(|_| {
        setup("tls_server_name, or the host: it is neither the name of a host nor an address")
    })?;
    let config = client_config(tls, left(until) / 2).await?;
    let mut handshake = pin!(TlsConnector::from(config).connect(name, stream));
    let shaken = match timeout(left(until) / 2, handshake.as_mut()).await {
        Ok(shaken) => shaken,
        Err(_) if probes && speaks_plainly(host, until).await => return Err(speaks_no_tls()),
        Err(_) => handshake.await,
    };
    match shaken {
        Ok(stream) => Ok(Box::new(stream)),
        Err(why) => Err(refusal_in(&why).unwrap_or_else(|| {
            CommandError::Unsent(Reason::new(format_args!("the TLS handshake failed: {why}")))
        })),
    }
}

/// A plain Redis may wait for more of the handshake, which it takes for the beginning of a command.
async fn speaks_plainly(host: &Host, until: Instant) -> bool {
    let ask = async {
        let (_, mut stream) = tcp(host, until).await.ok()?;
        stream.write_all(b"PING\r\n").await.ok()?;
        stream.read_u8().await.ok()
    };
    matches!(timeout(left(until) / 2, ask).await, Ok(Some(b'+' | b'-')))
}

/// Whether a port that closes plain connections speaks TLS. It gets nothing but the beginning of a
/// handshake: no certificate is accepted.
pub(super) async fn speaks_tls(host: &Host, until: Instant) -> bool {
    let trusts_nobody = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map(|config| config.with_root_certificates(RootCertStore::empty()))
        .map(ConfigBuilder::<ClientConfig, WantsClientCert>::with_no_client_auth);
    let (Ok(config), Ok(name)) = (trusts_nobody, ServerName::try_from(host.name.clone())) else {
        return false;
    };
    let ask = async {
        let (_, stream) = tcp(host, until).await.ok()?;
        let shaken = TlsConnector::from(Arc::new(config)).connect(name, stream);
        refusal_in(&shaken.await.err()?)
    };
    let refused = timeout(left(until) / 4, ask).await.ok().flatten();
    matches!(
        refused,
        Some(CommandError::Refused(Refusal::Certificate, _))
    )
}

/// What an error of a stream says about TLS, if it is one of TLS. With TLS 1.3 the server refuses
/// a client's certificate only after the client has finished the handshake.
pub(super) fn refusal_in(error: &(dyn Error + 'static)) -> Option<CommandError> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(why) = error.downcast_ref::<rustls::Error>() {
            return Some(refusal(why));
        }
        // Neither the client library's `Arc` nor an `io::Error` is the source of what it wraps.
        let io = error.downcast_ref::<std::io::Error>();
        next = if let Some(shared) = error.downcast_ref::<Arc<dyn Error + Send + Sync>>() {
            Some(&**shared)
        } else if let Some(inner) = io.and_then(std::io::Error::get_ref) {
            Some(inner)
        } else {
            error.source()
        };
    }
    None
}

fn refusal(why: &rustls::Error) -> CommandError {
    use AlertDescription as Alert;
    use rustls::Error::{
        AlertReceived, InvalidCertificate, InvalidMessage, PeerIncompatible, PeerMisbehaved,
    };
    match why {
        InvalidCertificate(wrong) => certificate(of_the_server(wrong)),
        InvalidMessage(_) => speaks_no_tls(),
        AlertReceived(Alert::CertificateRequired) => certificate(
            "the server demands a certificate of this program: give `tls_cert` and `tls_key` (`Config::tls_identity`)".to_owned(),
        ),
        // TLS 1.2 has no alert of its own for a missing certificate.
        AlertReceived(Alert::HandshakeFailure) => certificate(
            "the server ends the handshake: most likely it demands a certificate of this program (`tls_cert` and `tls_key`), else the two have no cipher in common".to_owned(),
        ),
        AlertReceived(
            alert @ (Alert::BadCertificate
            | Alert::UnsupportedCertificate
            | Alert::CertificateRevoked
            | Alert::CertificateExpired
            | Alert::CertificateUnknown
            | Alert::UnknownCA
            | Alert::AccessDenied
            | Alert::DecryptError),
        ) => certificate(format!(
            "the server does not accept this program's certificate ({alert:?}): check `tls_cert`, and the server's `tls-ca-cert-file`"
        )),
        AlertReceived(Alert::ProtocolVersion) | PeerIncompatible(_) => CommandError::Refused(
            Refusal::Tls,
            Reason::new("the server offers no TLS 1.2 or 1.3 that this program knows: see its `tls-protocols` and `tls-ciphers`"),
        ),
        AlertReceived(_) | PeerMisbehaved(_) => {
            CommandError::Refused(Refusal::Tls, Reason::new(why))
        }
        _ => CommandError::Unsent(Reason::new(format_args!("TLS failed: {why}"))),
    }
}

/// What is wrong with the server's certificate, and what to do.
fn of_the_server(wrong: &CertificateError) -> String {
    let advice = match wrong {
        // A CA that was made anew under its old name: the signature is not by the one we know.
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            "no CA that this program trusts has signed it; give the CA's certificate as `tls_ca`"
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "renew it at the server, and check this machine's clock"
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "check the clocks of both machines"
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "write a name of the certificate (a SAN) into the URL, or give it as `tls_server_name`"
        }
        CertificateError::Other(OtherError(why)) if is_of_version_1(why) => {
            "it is of X.509 version 1: make one of version 3, with the server's name as a SAN (`openssl x509 -req -extfile …`)"
        }
        _ => "the server needs another one",
    };
    format!(
        "the server's certificate is not accepted ({}): {advice}",
        in_words(wrong)
    )
}

fn is_of_version_1(why: &impl Display) -> bool {
    why.to_string() == "UnsupportedCertVersion"
}

/// What the library has no words for has a name: `UnsupportedCertVersion`.
fn in_words(wrong: &CertificateError) -> String {
    let CertificateError::Other(OtherError(why)) = wrong else {
        return wrong.to_string();
    };
    let mut words = String::new();
    for c in why.to_string().chars() {
        if c.is_ascii_uppercase() && !words.is_empty() {
            words.push(' ');
        }
        words.push(c.to_ascii_lowercase());
    }
    words
}

fn certificate(why: String) -> CommandError {
    CommandError::Refused(Refusal::Certificate, Reason::new(why))
}

fn speaks_no_tls() -> CommandError {
    CommandError::Refused(
        Refusal::Tls,
        Reason::new(
            "what answers there does not speak TLS; for a plain port, write `redis` in place of `rediss` in the URL's scheme",
        ),
    )
}

/// What the files say, once that is known.
type FilesRead = Option<Result<Arc<ClientConfig>, CommandError>>;

/// The reads that have not ended.
type PendingReads = Mutex<Vec<(Tls, watch::Receiver<FilesRead>)>>;

/// A file that blocks keeps one thread, however often it is asked for: each attempt joins the read
/// that has not ended.
static READS: PerProcess<PendingReads> = PerProcess::new(Mutex::new(Vec::new()));

fn reads() -> MutexGuard<'static, Vec<(Tls, watch::Receiver<FilesRead>)>> {
    READS.ours().lock().unwrap_or_else(PoisonError::into_inner)
}

/// Reads the files on a thread of its own: a file may be a pipe, or on a disk that hangs, and the
/// end of a runtime waits for those who block a thread of the runtime.
async fn client_config(tls: &Tls, within: Duration) -> Result<Arc<ClientConfig>, CommandError> {
    let mut read = reading(tls).map_err(|why| {
        CommandError::Unsent(Reason::new(format_args!(
            "the thread that reads the certificates can't be started: {why}"
        )))
    })?;
    let ended = tokio::time::timeout(within, read.wait_for(Option::is_some)).await;
    let ended = ended.map(|it| it.ok().and_then(|it| it.clone()));
    ended.unwrap_or_default().unwrap_or_else(|| {
        Err(CommandError::Unsent(Reason::new(format_args!(
            "the files of the certificates were not read within {:?}: see whether one of them is a pipe, or on a disk that hangs",
            rounded(within)
        ))))
    })
}

/// The read of these files that has not ended, or a new one.
fn reading(tls: &Tls) -> io::Result<watch::Receiver<FilesRead>> {
    let mut reads = reads();
    if let Some((_, read)) = reads.iter().find(|(of, _)| of == tls) {
        return Ok(read.clone());
    }
    let (tells, read) = watch::channel(None);
    let files = tls.clone();
    std::thread::Builder::new()
        .name("dlock-files".to_owned())
        .spawn(move || {
            let ending = EndOfRead(files);
            let config = read_config(&ending.0).map(Arc::new);
            drop(ending); // who asks from here on reads again
            tells.send_replace(Some(config));
        })?;
    reads.push((tls.clone(), read.clone()));
    Ok(read)
}

/// Forgets the read when it ends, by a panic too.
struct EndOfRead(Tls);

impl Drop for EndOfRead {
    fn drop(&mut self) {
        reads().retain(|(of, _)| *of != self.0);
    }
}

fn read_config(tls: &Tls) -> Result<ClientConfig, CommandError> {
    // Named here, so that a program with two providers of rustls is no reason to panic.
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(setup)?
        .with_root_certificates(roots(tls)?);
    with_identity(config, tls)
}

fn with_identity(
    config: ConfigBuilder<ClientConfig, WantsClientCert>,
    tls: &Tls,
) -> Result<ClientConfig, CommandError> {
    let Some((certificate, key)) = tls.identity() else {
        return Ok(config.with_no_client_auth());
    };
    let certificates = certificates("tls_cert", certificate)?;
    let key = PrivateKeyDer::from_pem_file(key).map_err(|why| {
        unusable(
            "tls_key",
            key,
            "private key (an encrypted one can't be read)",
            &why,
        )
    })?;
    config
        .with_client_auth_cert(certificates, key)
        .map_err(|why| setup(format_args!("tls_cert and tls_key: {why}")))
}

fn roots(tls: &Tls) -> Result<RootCertStore, CommandError> {
    let mut roots = RootCertStore::empty();
    if let Some(path) = &tls.ca {
        for certificate in certificates("tls_ca", path)? {
            roots.add(certificate).map_err(|why| {
                let why = match &why {
                    rustls::Error::InvalidCertificate(wrong) => in_words(wrong),
                    why => why.to_string(),
                };
                setup(format_args!(
                    "tls_ca: a certificate in {} is not one of a CA: {why}",
                    path.display()
                ))
            })?;
        }
        return Ok(roots);
    }
    let system = rustls_native_certs::load_native_certs();
    roots.add_parsable_certificates(system.certs);
    if roots.is_empty() {
        let first = system.errors.first();
        let reason = first.map(|why| format!(" ({why})")).unwrap_or_default();
        let why = format!(
            "this system has no CA certificates to check the server's with: install `ca-certificates`, or give the CA's certificate as `tls_ca`{reason}"
        );
        return Err(match first.map(|it| &it.kind) {
            Some(ErrorKind::Io { inner, .. } | ErrorKind::Pem(pem::Error::Io(inner))) => {
                unreadable(inner, why)
            }
            _ => setup(why),
        });
    }
    Ok(roots)
}

/// At least one certificate of a PEM file.
fn certificates(what: &str, path: &Path) -> Result<Vec<CertificateDer<'static>>, CommandError> {
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let read = read.and_then(|all| {
        if all.is_empty() {
            Err(pem::Error::NoItemsFound)
        } else {
            Ok(all)
        }
    });
    read.map_err(|why| unusable(what, path, "certificate", &why))
}

/// Not with the error's own text: it may repeat a line of the file.
fn unusable(what: &str, path: &Path, sought: &str, why: &pem::Error) -> CommandError {
    let path = path.display();
    match why {
        pem::Error::Io(why) => unreadable(why, format_args!("{what}: can't read {path}: {why}")),
        pem::Error::NoItemsFound => setup(format_args!("{what}: no {sought} in PEM in {path}")),
        _ => setup(format_args!("{what}: {path} is not a whole PEM file")),
    }
}

/// A file that can't be read for a reason of its own is a wrong setting; without descriptors or
/// memory for it, it can be read later.
fn unreadable(error: &io::Error, why: impl Display) -> CommandError {
    use io::ErrorKind::{
        InvalidData, InvalidInput, IsADirectory, NotADirectory, NotFound, PermissionDenied,
        UnexpectedEof,
    };
    match error.kind() {
        NotFound | PermissionDenied | IsADirectory | NotADirectory | InvalidInput | InvalidData
        | UnexpectedEof => setup(why),
        _ => CommandError::Unsent(Reason::new(why)),
    }
}

fn setup(why: impl Display) -> CommandError {
    CommandError::Setup(Reason::new(why))
}

#[cfg(test)]
mod tests {
    use std::fmt;

    use super::*;

    /// An error of the library that checks certificates: it shows its name.
    #[derive(Debug)]
    struct UnsupportedCertVersion;

    impl fmt::Display for UnsupportedCertVersion {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "{self:?}")
        }
    }

    impl Error for UnsupportedCertVersion {}

    #[test]
    fn what_the_library_has_only_a_name_for_is_said_in_words() {
        let why = OtherError(Arc::new(UnsupportedCertVersion));
        let said = of_the_server(&CertificateError::Other(why));
        assert!(said.contains("(unsupported cert version)"), "{said}");
        assert!(said.contains("X.509 version 1"), "{said}");
    }
}
