//! JSON Web Tokens with the claim `role`, as PostgREST takes them. `ring` verifies them.

use jsonwebtoken::{
    Algorithm, AlgorithmFamily, DecodingKey, DecodingKeyKind, EncodingKey, Validation,
    crypto::{CryptoProvider, JwtSigner, JwtVerifier, KeyUtils},
    decode, decode_header,
    errors::{Error, ErrorKind},
    jwk::JwkSet,
    signature::{self, Verifier},
};
use ring::{hmac, signature as ring_signature};
use serde_json::{Map, Value};

/// The keys that sign tokens, and what tokens may ask for.
pub struct TokenKeys {
    keys: Vec<(Option<String>, Algorithm, DecodingKey)>,
    roles: Vec<String>,
    claim: String,
    audience: Option<String>,
    issuer: Option<String>,
}

/// What the settings say about tokens.
#[derive(Debug, Clone, Default)]
pub struct TokenSettings {
    pub audience: Option<String>,
    pub issuer: Option<String>,
    pub claim: String,
    pub roles: Vec<String>,
}

impl TokenKeys {
    /// Reads a file: a secret of 32 bytes or more (HS256), a public key in PEM (RS256, ES256), or
    /// a set of keys in JSON (JWKS).
    ///
    /// # Errors
    /// The file is none of these.
    pub fn read(file: &[u8], settings: TokenSettings) -> Result<Self, String> {
        install_provider();
        let keys = if let Ok(set) = serde_json::from_slice::<JwkSet>(file) {
            let mut keys = vec![];
            for key in &set.keys {
                let algorithm = key
                    .common
                    .key_algorithm
                    .and_then(|a| a.to_string().parse().ok())
                    .ok_or("each key must have an algorithm (alg)")?;
                let decoding = DecodingKey::from_jwk(key).map_err(|e| e.to_string())?;
                keys.push((key.common.key_id.clone(), algorithm, decoding));
            }
            keys
        } else if file.starts_with(b"-----BEGIN") {
            let rsa = DecodingKey::from_rsa_pem(file).map(|key| (None, Algorithm::RS256, key));
            let key = rsa.or_else(|_| {
                DecodingKey::from_ec_pem(file).map(|key| (None, Algorithm::ES256, key))
            });
            vec![key.map_err(|_| "is no public key of RSA or of the curve P-256")?]
        } else {
            let secret = file.trim_ascii_end();
            if secret.len() < 32 {
                return Err("a secret must have at least 32 bytes".into());
            }
            vec![(None, Algorithm::HS256, DecodingKey::from_secret(secret))]
        };
        if keys.is_empty() {
            return Err("has no keys".into());
        }
        if let Some((_, algorithm, _)) = keys.iter().find(|(_, a, _)| !is_known(*a)) {
            return Err(format!(
                "algorithm {algorithm:?}: must be HS256, RS256 or ES256"
            ));
        }
        Ok(Self {
            keys,
            roles: settings.roles,
            claim: settings.claim,
            audience: settings.audience,
            issuer: settings.issuer,
        })
    }

    /// Returns the role of a token.
    ///
    /// # Errors
    /// No key has signed it, it has expired, or it asks for a role that is not allowed.
    pub fn role(&self, token: &str) -> Result<String, &'static str> {
        let header = decode_header(token).map_err(|_| "the key is invalid")?;
        let mut reason = "no key has signed the token";
        for (id, algorithm, key) in &self.keys {
            let other_id = id.is_some() && header.kid.is_some() && *id != header.kid;
            if other_id || header.alg != *algorithm {
                continue;
            }
            match decode::<Map<String, Value>>(token, key, &self.validation(*algorithm)) {
                Ok(data) => return self.allowed(&data.claims),
                Err(error) => reason = in_words(&error).unwrap_or(reason),
            }
        }
        Err(reason)
    }

    fn validation(&self, algorithm: Algorithm) -> Validation {
        let mut validation = Validation::new(algorithm);
        validation.validate_nbf = true;
        match &self.audience {
            Some(audience) => validation.set_audience(&[audience]),
            None => validation.validate_aud = false,
        }
        if let Some(issuer) = &self.issuer {
            validation.set_issuer(&[issuer]);
        }
        validation
    }

    fn allowed(&self, claims: &Map<String, Value>) -> Result<String, &'static str> {
        let role = claims.get(&self.claim).and_then(Value::as_str);
        role.filter(|role| self.roles.iter().any(|allowed| allowed == role))
            .map(str::to_owned)
            .ok_or("the token has no role that is allowed")
    }
}

fn in_words(error: &Error) -> Option<&'static str> {
    match error.kind() {
        ErrorKind::ExpiredSignature => Some("the token has expired"),
        ErrorKind::ImmatureSignature => Some("the token is not valid yet"),
        ErrorKind::InvalidAudience => Some("the token is for another audience"),
        ErrorKind::InvalidIssuer => Some("the token is from another issuer"),
        ErrorKind::MissingRequiredClaim(_) => Some("the token lacks the claim exp"),
        _ => None,
    }
}

fn is_known(algorithm: Algorithm) -> bool {
    matches!(
        algorithm,
        Algorithm::HS256 | Algorithm::RS256 | Algorithm::ES256
    )
}

// -- ring as the provider of jsonwebtoken

static RING: CryptoProvider = CryptoProvider {
    signer_factory: no_signer,
    verifier_factory: verifier,
    key_utils: KeyUtils::new_unimplemented(),
};

fn install_provider() {
    // an error says that it is there already
    let _ = RING.install_default();
}

fn no_signer(_: &Algorithm, _: &EncodingKey) -> Result<Box<dyn JwtSigner>, Error> {
    Err(ErrorKind::InvalidAlgorithm.into())
}

fn verifier(algorithm: &Algorithm, key: &DecodingKey) -> Result<Box<dyn JwtVerifier>, Error> {
    if !is_known(*algorithm) {
        return Err(ErrorKind::InvalidAlgorithm.into());
    }
    if key.family() != algorithm.family() {
        return Err(ErrorKind::InvalidKeyFormat.into());
    }
    Ok(Box::new(RingVerifier {
        algorithm: *algorithm,
        key: key.clone(),
    }))
}

struct RingVerifier {
    algorithm: Algorithm,
    key: DecodingKey,
}

impl JwtVerifier for RingVerifier {
    fn algorithm(&self) -> Algorithm {
        self.algorithm
    }
}

impl Verifier<Vec<u8>> for RingVerifier {
    fn verify(&self, message: &[u8], given: &Vec<u8>) -> Result<(), signature::Error> {
        let wrong = |_| signature::Error::new();
        let key = self.key.kind();
        match (self.algorithm.family(), key) {
            (AlgorithmFamily::Hmac, DecodingKeyKind::SecretOrDer(secret)) => {
                let key = hmac::Key::new(hmac::HMAC_SHA256, secret);
                hmac::verify(&key, message, given).map_err(wrong)
            }
            (AlgorithmFamily::Rsa, DecodingKeyKind::SecretOrDer(der)) => {
                let algorithm = &ring_signature::RSA_PKCS1_2048_8192_SHA256;
                ring_signature::UnparsedPublicKey::new(algorithm, der)
                    .verify(message, given)
                    .map_err(wrong)
            }
            (AlgorithmFamily::Rsa, DecodingKeyKind::RsaModulusExponent { n, e }) => {
                ring_signature::RsaPublicKeyComponents { n, e }
                    .verify(&ring_signature::RSA_PKCS1_2048_8192_SHA256, message, given)
                    .map_err(wrong)
            }
            (AlgorithmFamily::Ec, DecodingKeyKind::SecretOrDer(point)) => {
                let algorithm = &ring_signature::ECDSA_P256_SHA256_FIXED;
                ring_signature::UnparsedPublicKey::new(algorithm, point)
                    .verify(message, given)
                    .map_err(wrong)
            }
            _ => Err(signature::Error::new()),
        }
    }
}
