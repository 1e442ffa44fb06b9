# rag-gateway takes tokens with the claim role, and TLS with a certificate that is replaced.
use strict;
use warnings;
use Digest::SHA qw(hmac_sha256);
use JSON::PP ();
use MIME::Base64 qw(encode_base64url);
use Test::More;
use RagCluster;
use RagGateway;

my $folder = temp_folder();

sub openssl
{
	my (@arguments) = @_;
	open my $pipe, '-|', "openssl @arguments 2>&1" or die $!;
	local $/;
	my $output = <$pipe>;
	return close $pipe ? $output : undef;
}
plan skip_all => 'there is no program openssl' if !defined openssl('version');
openssl("genrsa -out $folder/rsa.pem 2048");
openssl("rsa -in $folder/rsa.pem -pubout -out $folder/rsa.pub");
openssl("ecparam -name prime256v1 -genkey -noout -out $folder/ec.pem");
openssl("ec -in $folder/ec.pem -pubout -out $folder/ec.pub");
my $secret = 'a secret of at least 32 bytes, as it should be';
write_file("$folder/secret", $secret);

my $node = rag_node('gateway_tokens');
$node->safe_psql('postgres', q{
	CREATE ROLE web IN ROLE rag_reader;
	CREATE ROLE other IN ROLE rag_reader;
	CREATE ROLE boss SUPERUSER;
	GRANT web, boss TO rag_gateway;
});

# A token that is signed by an algorithm with a key.
sub token
{
	my ($algorithm, $key, %claims) = @_;
	my $text = join '.', map { encode_base64url(JSON::PP::encode_json($_)) }
	  { alg => $algorithm, typ => 'JWT' }, { exp => time + 60, role => 'web', %claims };
	my $signature;
	if ($algorithm eq 'none') { $signature = '' }
	elsif ($algorithm eq 'HS256') { $signature = hmac_sha256($text, $key) }
	else
	{
		write_file("$folder/message", $text);
		openssl("dgst -sha256 -sign $key -out $folder/signature $folder/message");
		open my $file, '<:raw', "$folder/signature" or die $!;
		local $/;
		$signature = <$file>;
		if ($algorithm eq 'ES256')
		{
			# two numbers in DER, as two numbers of 32 bytes
			my ($r, $s) = unpack 'x3 C/a x C/a', $signature;
			$signature = join '', map { substr "\0" x 32 . $_, -32 } $r, $s;
		}
	}
	return "$text." . encode_base64url($signature);
}

my %keys = (
	HS256 => [ "$folder/secret", $secret ],
	RS256 => [ "$folder/rsa.pub", "$folder/rsa.pem" ],
	ES256 => [ "$folder/ec.pub", "$folder/ec.pem" ]);
for my $algorithm (sort keys %keys)
{
	my ($public, $private) = @{ $keys{$algorithm} };
	my $gateway = RagGateway->start($node, jwt_key => $public, jwt_roles => 'web,other,boss',
		jwt_audience => 'docs');
	my $status = sub { $gateway->status(token(@_), GET => '/v1/status') };
	my @good = ($algorithm, $private, aud => 'docs');
	is($gateway->ok(token(@good), GET => '/v1/status')->{role}, 'web',
		"$algorithm: a token has the role of its claim");
	is($status->(@good, role => 'postgres'), 401, '... if that is allowed');
	is($status->(@good, role => 'other'), 401, '... and granted to rag_gateway');
	is($status->(@good, role => 'boss'), 401, '... and no superuser');
	is($status->(@good, role => undef), 401, 'a token without a role is refused');
	is($status->(@good, exp => time - 100), 401, 'a token that has expired is refused');
	is($status->(@good, nbf => time + 1000), 401, 'a token that is not valid yet is refused');
	is($status->(@good, aud => 'others'), 401, 'a token for others is refused');
	is($status->('none', '', aud => 'docs'), 401, 'a token without a signature is refused');
	open my $file, '<', $public or die $!;
	my $text = do { local $/; <$file> };
	is($status->('HS256', $text, aud => 'docs'), 401, 'a public key is no secret')
	  if $algorithm ne 'HS256';
	like($gateway->{response}{headers}{'www-authenticate'}, qr/invalid_token/,
		'the answer says what is wrong');
	is($gateway->status($gateway->key('web', "key-$algorithm"), GET => '/v1/status'), 200,
		'keys work beside tokens');
	is($gateway->stop, 0, 'the program ends with status 0');
}

# -- TLS
# ----------------------------------------

sub certificate
{
	my ($name) = @_;
	openssl("req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2",
		"-keyout $folder/tls.key.new -out $folder/tls.pem.new -subj /CN=$name",
		"-addext subjectAltName=IP:127.0.0.1");
	rename "$folder/tls.key.new", "$folder/tls.key" or die $!;
	rename "$folder/tls.pem.new", "$folder/tls.pem" or die $!;
	return;
}
certificate('first');
my $gateway = RagGateway->start($node, tls_certificate => "$folder/tls.pem",
	tls_key => "$folder/tls.key");
my $connect = "s_client -connect $gateway->{address} </dev/null";
like(openssl("$connect -CAfile $folder/tls.pem") // '', qr/Verify return code: 0 \(ok\)/,
	'connections are encrypted');
certificate('second');
await('a new certificate is used', sub { (openssl($connect) // '') =~ /CN ?= ?second/ });
is($gateway->status(undef, GET => '/healthz'), 599, 'plain HTTP is not answered');
is($gateway->stop, 0, 'the program ends with status 0');
done_testing();
