# rag-gateway in front of a node: start, stop, requests with a key.
package RagGateway;

use strict;
use warnings;
use HTTP::Tiny;
use JSON::PP ();
use POSIX qw(WNOHANG);
use RagCluster ();
use RagProcesses;

my $json = JSON::PP->new->utf8->canonical->allow_nonref;

# Starts the program. Options: database, passfile, and settings of the program, as in
# max_body => 1024.
sub start
{
	my ($class, $node, %setting) = @_;
	my $self = bless {
		node => $node,
		log => RagCluster::temp_folder() . '/log',
		http => HTTP::Tiny->new(timeout => 60, keep_alive => 1)
	}, $class;
	my $database = delete $setting{database} // 'postgres';
	my $passfile = delete $setting{passfile} // '';
	my %environment = (
		PGHOST => $node->host,
		PGPORT => $node->port,
		PGDATABASE => $database,
		PGPASSFILE => $passfile,
		map { ("RAG_GATEWAY_\U$_" => $setting{$_}) } keys %setting);
	$environment{RAG_GATEWAY_LISTEN} //= '127.0.0.1:0';
	my $program = program($node);
	$self->{pid} = fork // die $!;
	if ($self->{pid} == 0)
	{
		delete @ENV{ grep { /^PG/ } keys %ENV };
		%ENV = (%ENV, %environment);
		open STDERR, '>', $self->{log} or die $!;
		open STDOUT, '>&', \*STDERR or die $!;
		exec $program, 'serve';
		die "cannot execute $program: $!";
	}
	await(
		'the gateway listens',
		sub {
			die 'the gateway has ended: ' . $self->log if waitpid $self->{pid}, WNOHANG;
			$self->log =~ /listening on (\S+)/ or return 0;
			$self->{address} = $1;
			return 1;
		});
	return $self;
}

# The installed program.
sub program { my ($node) = @_; return $node->config_data('--pkglibdir') . '/rag/rag-gateway' }

sub url { return 'http://' . $_[0]{address} }

sub log
{
	my ($self) = @_;
	open my $file, '<', $self->{log} or return '';
	local $/;
	return scalar <$file>;
}

# Sends SIGTERM, and returns the exit status.
sub stop
{
	my ($self) = @_;
	return if !$self->{pid};
	kill 'TERM', $self->{pid};
	waitpid $self->{pid}, 0;
	$self->{pid} = 0;
	return $? >> 8;
}

sub DESTROY
{
	my ($self) = @_;
	local ($?, $@, $!);
	kill 'KILL', $self->{pid} and waitpid $self->{pid}, 0 if $self->{pid};
	return;
}

# Creates a key for a role. Options of rag_create_api_key as SQL.
sub key
{
	my ($self, $role, $name, $options) = @_;
	$name //= $role;
	$options = $options ? ", $options" : '';
	return $self->{node}
	  ->safe_psql('postgres', "SELECT rag_create_api_key('$name', '$role'$options)");
}

# Sends a request. Returns status, and the body: parsed if it is JSON.
sub request
{
	my ($self, $key, $method, $path, $body, %headers) = @_;
	my %options = (headers => {%headers});
	$options{headers}{Authorization} = "Bearer $key" if defined $key;
	if (defined $body)
	{
		$options{headers}{'Content-Type'} //= 'application/json';
		$options{content} = ref $body ? $json->encode($body) : $body;
	}
	my $response = $self->{http}->request($method, $self->url . $path, \%options);
	$self->{response} = $response;
	my $content = $response->{content};
	$content = $json->decode($content)
	  if ($response->{headers}{'content-type'} // '') =~ /json/ and length $content;
	return ($response->{status}, $content);
}

# The body of a request that must succeed.
sub ok
{
	my ($self, @request) = @_;
	my ($status, $body) = $self->request(@request);
	die "$request[1] $request[2]: $status " . (ref $body ? $json->encode($body) : $body)
	  if $status !~ /^2/;
	return $body;
}

# The status of a request.
sub status { my ($self, @request) = @_; return ($self->request(@request))[0] }

# The body of a form with a file and further parts.
sub form
{
	my ($file, $content, %parts) = @_;
	my $boundary = 'boundary-of-the-form';
	my $body = join '', map {
		"--$boundary\r\nContent-Disposition: form-data; name=\"$_\"\r\n\r\n$parts{$_}\r\n"
	} sort keys %parts;
	$body .= "--$boundary\r\nContent-Disposition: form-data; name=\"file\"; filename=\"$file\"\r\n"
	  . "Content-Type: application/octet-stream\r\n\r\n$content\r\n--$boundary--\r\n";
	return ($body, 'Content-Type' => "multipart/form-data; boundary=$boundary");
}

1;
