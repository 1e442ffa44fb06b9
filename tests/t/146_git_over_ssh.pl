# A repository behind OpenSSH's server: the host's key, private keys by secret, Git LFS.
use strict;
use warnings;
use IO::Socket::INET;
use Test::More;
use RagCluster;
use RagGit;

my $sshd = '/usr/sbin/sshd';
plan skip_all => "$sshd is missing, which Debian's openssh-server has" unless -x $sshd;

my $node = rag_node('git_over_ssh', conf => "rag.allowed_private_hosts = '127.0.0.1'");
my $repository = git_repository();
my $folder = temp_folder();
my $user = getpwuid $>;

# -- the server, for the user who runs the tests
sub generate
{
	my ($name, $passphrase) = @_;
	system('ssh-keygen', '-q', '-t', 'ed25519', '-C', 'test', '-N', $passphrase // '',
		'-f', "$folder/$name") == 0 or die 'ssh-keygen failed';
	return;
}

sub file
{
	my ($name) = @_;
	open my $handle, '<', "$folder/$name" or die "$name: $!";
	local $/ = undef;
	my $text = <$handle>;
	return $text;
}
generate('host');
generate('identity');
generate('encrypted', 's3cr3t phrase');
write_file("$folder/authorized", file('identity.pub') . file('encrypted.pub'));
my $probe = IO::Socket::INET->new(Listen => 1, LocalAddr => '127.0.0.1') or die $!;
my $port = $probe->sockport;
close $probe;
mkdir '/run/sshd' if $> == 0;
write_file("$folder/configuration", <<"END");
ListenAddress 127.0.0.1:$port
HostKey $folder/host
AuthorizedKeysFile $folder/authorized
StrictModes no
UsePAM no
PidFile none
PermitRootLogin yes
PasswordAuthentication no
END
my $server = fork // die $!;
if ($server == 0)
{
	open STDERR, '>', "$folder/log" or die $!;
	exec $sshd, '-D', '-e', '-f', "$folder/configuration" or die $!;
}
END { kill 'TERM', $server if $server }
my $is_up = 0;
for (1 .. 100)
{
	last if $is_up = defined IO::Socket::INET->new(PeerAddr => "127.0.0.1:$port");
	select undef, undef, undef, 0.1;
}
ok($is_up, 'the server listens') or BAIL_OUT(file('log'));

$repository->write('a.md', "# A\n\nA text.\n");
$repository->commit;
my $url = "ssh://$user\@127.0.0.1:$port" . $repository->path;
my ($host_key) = file('host.pub') =~ /^(\S+ \S+)/;

# Creates a source with these keys of the host. Returns what its first run says.
sub create
{
	my ($name, $keys, $secret) = @_;
	my $spec = qq({"repositoryURL": "$url", "hostKeys": [$keys]});
	my $credentials = $secret ? ", credentials => '$secret'" : '';
	$node->safe_psql('postgres', "SELECT rag_create_source('$name', 'git', '$spec'$credentials)");
	$node->psql('postgres', "SELECT rag_sync('$name')");
	return run_row($node, $name,
		"phase, documents_added, errors -> 0 ->> 'message', errors -> 0 ->> 'hint'");
}

sub create_secret
{
	my ($name, $key, $value) = @_;
	$node->safe_psql('postgres', "SELECT rag_create_secret('$name', '$value', key => '$key')");
	return;
}
create_secret('deploy', 'ssh-privatekey', file('identity'));
create_secret('locked', 'ssh-privatekey', file('encrypted'));

my $unknown = create('unknown', '', 'deploy');
like(
	$unknown,
	qr/^Failed\|0\|the host key of the server of \Q$url\E is not known\|.*"hostKeys": \["(.*)"\]$/,
	'an unknown host is refused');
my ($shown) = $unknown =~ /"hostKeys": \["(.*)"\]$/;
is($shown, $host_key, 'the hint has the key');
is(create('known', qq("$shown"), 'deploy'),
	'Completed|1||', 'with the key, the repository is read');
is( $node->safe_psql('postgres', "SELECT uri FROM rag.documents WHERE source = 'known'"),
	"$url#a.md",
	'the document has the URL of the repository');
like(
	create('no-key', qq("$host_key")),
	qr/^Failed\|0\|the server of \S+ asks for a private key\|/,
	'without a key, the server is named');
like(
	create('locked', qq("$host_key"), 'locked'),
	qr/^Failed\|0\|the private key has a passphrase, and the secret does not\|/,
	'a passphrase is missing');
create_secret('locked', 'passphrase', 's3cr3t phrase');
$node->safe_psql('postgres', "SELECT rag_sync('locked')");
is(run_row($node, 'locked', 'phase, documents_added'),
	'Completed|1', 'the passphrase opens the key');

# -- secrets
create_secret('token', 'token', 'ghp_1234');
error_like(
	run_sql(
		$node, qq{SELECT rag_create_source('wrong', 'git',
		'{"repositoryURL": "$url"}', credentials => 'token')}),
	'42704',
	'secret "token" has no key "ssh-privatekey"',
	undef,
	'a secret without a private key is refused');
for my $key (qw(ssh-privatekey passphrase))
{
	error_like(
		run_sql($node, "SELECT rag_drop_secret('locked', key => '$key')"),
		'2BP01', 'because sources use it',
		undef, "$key cannot be dropped while a source uses it");
}
is( $node->safe_psql('postgres', <<"SQL"),
SELECT rag_get_manifest('AutoIndexer', 'known') #>> '{spec,credentials,secretRef,key}'
SQL
	'ssh-privatekey',
	'a manifest names the key of the secret');
my $said = $node->safe_psql('postgres', 'SELECT string_agg(errors::text, $$ $$) FROM rag.runs');
unlike($said, qr/s3cr3t|PRIVATE KEY/, 'no error has a part of a secret');

done_testing();
