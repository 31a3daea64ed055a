//! A certificate authority for one test, and the PEM files that it hands out.

use std::fs;
use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    date_time_ymd,
};

/// An authority with a folder for its files, which is removed with it.
#[derive(Debug)]
#[must_use = "dropping it removes its files"]
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    directory: tempfile::TempDir,
}

/// A certificate and its key, each in a PEM file.
#[derive(Clone, Debug)]
pub struct Identity {
    /// The file of the certificate.
    pub certificate: PathBuf,
    /// The file of its private key.
    pub key: PathBuf,
}

impl Authority {
    /// A new authority, which nobody trusts yet.
    pub fn new() -> Self {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new([]).expect("no names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params
            .distinguished_name
            .push(DnType::CommonName, "dlock test CA");
        let certificate = params.self_signed(&key).expect("a certificate");
        let directory = tempfile::Builder::new()
            .prefix("dlock-ca-")
            .tempdir()
            .expect("a temporary directory");
        fs::write(directory.path().join("ca.pem"), certificate.pem()).expect("write ca.pem");
        Self {
            issuer: Issuer::new(params, key),
            directory,
        }
    }

    /// The PEM file of the authority's own certificate.
    #[must_use]
    pub fn file(&self) -> PathBuf {
        self.directory.path().join("ca.pem")
    }

    /// A certificate for a server at these names and addresses, or for a client of that name. The
    /// same `file` again replaces it.
    #[must_use]
    pub fn issue(&self, file: &str, names: &[&str]) -> Identity {
        self.issue_in(file, names, 2000..2090)
    }

    /// As [`issue`](Self::issue), valid from the first of January of the first year on, until that
    /// of the last.
    #[must_use]
    pub fn issue_in(&self, file: &str, names: &[&str], years: std::ops::Range<i32>) -> Identity {
        let key = KeyPair::generate().expect("a key");
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).expect("names");
        params.not_before = date_time_ymd(years.start, 1, 1);
        params.not_after = date_time_ymd(years.end, 1, 1);
        params.extended_key_usages = vec![
            ExtendedKeyUsagePurpose::ServerAuth,
            ExtendedKeyUsagePurpose::ClientAuth,
        ];
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate");
        Identity {
            certificate: self.write(&format!("{file}.pem"), &certificate.pem()),
            key: self.write(&format!("{file}-key.pem"), &key.serialize_pem()),
        }
    }

    /// Writes a file into the authority's folder, in one step, as tools that renew certificates do.
    #[must_use]
    pub fn write(&self, file: &str, text: &str) -> PathBuf {
        let path = self.directory.path().join(file);
        let new = path.with_extension("new");
        fs::write(&new, text).expect("write a file");
        fs::rename(&new, &path).expect("rename a file");
        path
    }

    /// The folder of the files.
    #[must_use]
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }
}

impl Default for Authority {
    fn default() -> Self {
        Self::new()
    }
}
