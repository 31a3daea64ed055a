//! How a connection is encrypted: where the certificates are, and whose name the server's must have.
//!
//! The URL, [`Config`](super::Config) and the environment can each give them. It opens no file: a
//! connection reads them when it is made, so that one that was replaced is used from then on.
//! Invariant: nothing here turns the check of the server's certificate off.

use std::path::{Path, PathBuf};

use super::Config;

/// The settings of a `rediss://` connection; what is not given has a default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tls {
    /// A PEM file of the CAs to trust instead of the system's.
    pub(crate) ca: Option<PathBuf>,
    /// PEM files of the certificate with which this client identifies itself, and of its key.
    pub(crate) certificate: Option<PathBuf>,
    pub(crate) key: Option<PathBuf>,
    /// The name that the server's certificate must have, if it is not the URL's host.
    pub(crate) server_name: Option<String>,
}

impl Tls {
    /// Takes an option of a URL; `false` if it is not one of these.
    pub(super) fn take(&mut self, name: &str, value: &str) -> Result<bool, String> {
        let file = match name {
            "tls_ca" => &mut self.ca,
            "tls_cert" => &mut self.certificate,
            "tls_key" => &mut self.key,
            "tls_server_name" => {
                self.server_name = Some(filled(name, value)?.to_owned());
                return Ok(true);
            }
            "insecure" => return Err(INSECURE.to_owned()),
            _ => return Ok(false),
        };
        *file = Some(PathBuf::from(filled(name, value)?));
        Ok(true)
    }

    /// What the URL gives, and what the configuration gives beside it.
    pub(super) fn and(self, other: Tls, wrong: &mut Vec<String>) -> Tls {
        let all = Tls {
            ca: one_of("tls_ca", self.ca, other.ca, wrong),
            certificate: one_of("tls_cert", self.certificate, other.certificate, wrong),
            key: one_of("tls_key", self.key, other.key, wrong),
            server_name: one_of(
                "tls_server_name",
                self.server_name,
                other.server_name,
                wrong,
            ),
        };
        match (&all.certificate, &all.key) {
            (Some(_), None) => wrong.push(
                "tls_cert: no `tls_key` beside it; give the file of the certificate's key"
                    .to_owned(),
            ),
            (None, Some(_)) => wrong.push(
                "tls_key: no `tls_cert` beside it; give the file of the key's certificate"
                    .to_owned(),
            ),
            _ => {}
        }
        for (what, path) in [
            ("tls_ca", &all.ca),
            ("tls_cert", &all.certificate),
            ("tls_key", &all.key),
        ] {
            if path.as_deref() == Some(Path::new("")) {
                wrong.push(format!("{what}: empty; give the path of a PEM file"));
            }
        }
        all
    }

    /// The certificate of this client with its key, if both are given.
    #[cfg_attr(
        not(feature = "tls"),
        allow(dead_code, reason = "nobody connects by TLS")
    )]
    pub(crate) fn identity(&self) -> Option<(&Path, &Path)> {
        self.certificate.as_deref().zip(self.key.as_deref())
    }

    pub(super) fn is_given(&self) -> bool {
        *self != Tls::default()
    }
}

/// The answer to `#insecure` and `?insecure`, with which other clients turn the check off.
pub(super) const INSECURE: &str = "url: `insecure` is refused: without a check of its certificate, anyone between here and the server can read the password and grant locks; give the CA that signed it as `tls_ca`, and the name in it as `tls_server_name` if that is not the host's";

fn filled<'a>(name: &str, value: &'a str) -> Result<&'a str, String> {
    if value.is_empty() {
        return Err(format!(
            "url: `{name}` is empty; give a value or leave it out"
        ));
    }
    Ok(value)
}

fn one_of<T: PartialEq>(
    what: &str,
    url: Option<T>,
    config: Option<T>,
    wrong: &mut Vec<String>,
) -> Option<T> {
    if url.is_some() && config.is_some() && url != config {
        wrong.push(format!(
            "{what}: the URL gives another one; give it in one place"
        ));
    }
    url.or(config)
}

impl Config {
    /// Sets the CAs to trust with `rediss://`: a PEM file of their certificates. Default: the
    /// system's.
    ///
    /// Use it for a server whose certificate is signed by a CA of your own; no other CA is trusted
    /// then. The file is read at each connect, so a new file takes effect at the next one. An image
    /// without the system's CAs (no `ca-certificates`) needs this setting, or the variable
    /// `SSL_CERT_FILE`, whose file replaces the system's.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # #[cfg(feature = "tls")]
    /// # async fn start() -> Result<(), dlock_runtime::LockError> {
    /// use dlock_runtime::Config;
    ///
    /// let config = Config::new("rediss://dlock:secret@redis.internal:6380")
    ///     .tls_ca("/etc/redis/ca.pem")
    ///     .tls_identity("/etc/dlock/client.pem", "/etc/dlock/client-key.pem");
    /// dlock_runtime::init(config).await?;
    /// # Ok(()) }
    /// ```
    pub fn tls_ca(mut self, pem: impl Into<PathBuf>) -> Self {
        self.tls.ca = Some(pem.into());
        self
    }

    /// Sets the certificate with which this program identifies itself with `rediss://`, and its
    /// private key: PEM files, read at each connect. A server with `tls-auth-clients yes` needs it.
    ///
    /// The first file has the program's certificate first, then any intermediate ones.
    pub fn tls_identity(
        mut self,
        certificate: impl Into<PathBuf>,
        key: impl Into<PathBuf>,
    ) -> Self {
        self.tls.certificate = Some(certificate.into());
        self.tls.key = Some(key.into());
        self
    }

    /// Sets the name that the server's certificate must have with `rediss://`. Default: the URL's
    /// host.
    ///
    /// Use it for a server that is reached under another name than the one in its certificate, such
    /// as an IP address or the end of a tunnel.
    pub fn tls_server_name(mut self, name: impl Into<String>) -> Self {
        self.tls.server_name = Some(name.into());
        self
    }
}
